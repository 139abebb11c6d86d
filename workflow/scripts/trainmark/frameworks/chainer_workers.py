"""Several workers of Chainer: ChainerMN's communicator and its optimizer, as in its documentation."""

from typing import Any

from trainmark.frameworks.chainer_adapter import ChainerAdapter
from trainmark.frameworks.sharing import SharingAdapter
from trainmark.machine.ranks import Ranks

import chainermn  # type: ignore[import-untyped]  # isort: skip  (after the compatibility module, which the adapter imports)

WORKERS = {"chainer": {"name": "ChainerMN"}}

COMMUNICATORS = {"cpu": "naive", "gpu": "pure_nccl"}
"""ChainerMN's communicator by device."""


def create(framework: str, threads: int, ranks: Ranks) -> "ChainerWorkersAdapter":
    """Return the adapter of a rank."""
    return ChainerWorkersAdapter(framework, threads, ranks)


class ChainerWorkersAdapter(SharingAdapter, ChainerAdapter):
    """See `adapter.Adapter`."""

    def build(self, *, device: str, **arguments: Any) -> None:
        self._communicator = chainermn.create_communicator(COMMUNICATORS[device])
        super().build(device=device, **arguments)
        # The optimizer's first update would only send rank 0's weights to the others, without training.
        self._communicator.bcast_data(self._network)
        self._optimizer.is_changed(self._network)

    def _shared(self, optimizer: Any) -> Any:
        return chainermn.create_multi_node_optimizer(optimizer, self._communicator)

    def _loss(self, inputs: Any, labels: Any) -> Any:
        return self._weighted(super()._loss(inputs, labels))
