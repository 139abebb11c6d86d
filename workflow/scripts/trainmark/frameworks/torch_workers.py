"""Several workers of torch: DistributedDataParallel over gloo or NCCL, as in its documentation."""

from typing import Any

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from trainmark.frameworks import torch_platform
from trainmark.frameworks.sharing import SharingAdapter
from trainmark.frameworks.torch_adapter import TorchAdapter
from trainmark.machine.ranks import Ranks, address_of_first

WORKERS = {"torch": {"name": "DistributedDataParallel"}}

BACKENDS = {"cpu": "gloo", "gpu": "nccl"}
"""torch's way to exchange gradients, by device."""


def create(framework: str, threads: int, ranks: Ranks) -> "TorchWorkersAdapter":
    """Return the adapter of a rank."""
    return TorchWorkersAdapter(framework, threads, ranks)


class TorchWorkersAdapter(SharingAdapter, TorchAdapter):
    """See `adapter.Adapter`."""

    def build(self, *, device: str, **arguments: Any) -> None:
        self.check_gpus(device, torch_platform.gpus(torch), "torch")  # NCCL would say less of a missing one
        if not distributed.is_initialized():
            distributed.init_process_group(
                BACKENDS[device],
                init_method=f"tcp://{address_of_first(self.ranks)}",
                rank=self.ranks.rank,
                world_size=self.ranks.size,
                # Each rank sees its own GPU alone (machine/locks.py). With it, NCCL connects here and not in a step.
                device_id=torch.device("cuda", 0) if device == "gpu" else None,
            )
        super().build(device=device, **arguments)
        self._parallel = DistributedDataParallel(self._network)

    def _forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._parallel(inputs)

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self._weighted(super()._loss(inputs, labels))
