"""The adapter of torch. The loop is that of its documentation: a batch to the device, forward, backward, a step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
import torch._dynamo  # the first step of any optimizer imports it: for a second, which would count as training
from torch.nn import functional as F

from trainmark.frameworks import torch_platform
from trainmark.frameworks.adapter import ObservedAdapter, check_array, check_shape, evaluation_batch_size, random_matrix
from trainmark.frameworks.layouts import outputs_first, outputs_last, shape_with_outputs_last
from trainmark.frameworks.torch_layers import LAYERS, Network
from trainmark.frameworks.torch_optimizers import OPTIMIZERS, create_optimizer, set_rates
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.stream import Batch, Stream
from trainmark.recipes.update_rules import SLOTS

FRAMEWORKS = {
    "torch": {
        "set_up": "make torch",
        "packages": ["torch"],
        "environment": {"NVIDIA_TF32_OVERRIDE": "0"},
        "unused_packages": ["opt_einsum"],
        "also_called": ["pytorch"],
        "variables": ["AOT", "INDUCTOR_", "PYTORCH_", "TORCH"],
    }
}


def create(framework: str, threads: int) -> "TorchAdapter":
    """Return the adapter of a framework of FRAMEWORKS."""
    return TorchAdapter(framework, threads)


class TorchAdapter(ObservedAdapter):
    """See `adapter.Adapter`."""

    out_of_memory_texts = torch_platform.OUT_OF_MEMORY
    _layers = LAYERS
    _optimizers = OPTIMIZERS
    _memory_format = torch.contiguous_format

    def __init__(self, framework: str, threads: int) -> None:
        super().__init__(framework, threads)
        torch.set_num_threads(threads)
        # Not torch.use_deterministic_algorithms, which refuses the gradients of LRN and of a maximum over time on GPUs.
        torch_platform.refuse_tf32(torch)

    def build(
        self,
        *,
        architecture: Architecture,
        weights: Weights,
        optimizer: Optimizer,
        device: str,
        dtype: str,
        observed_batch: int | None = None,
    ) -> None:
        self.check_gpus(device, torch_platform.gpus(torch), "torch")
        self._architecture = architecture
        self._splits: dict[str, tuple[Any, torch.Tensor]] = {}
        self._counted = {"samples": 0, "batches": 0}
        self._device = torch.device("cuda" if device == "gpu" else "cpu")
        self._dtype = getattr(torch, dtype)
        self._network = Network(architecture, self._dtype, self._device, self._layers)
        self._network.to(memory_format=self._memory_format)
        for parameter in architecture.arrays():
            array = self._network.array_of(parameter)
            check_array(
                self.framework, parameter, None if array is None else shape_with_outputs_last(parameter, array.shape)
            )
        self._rule = optimizer.rule
        self._optimizer = create_optimizer(self._optimizers, self._network.parameters(), **optimizer.as_dict())
        self.set_weights(weights)
        if observed_batch:
            self._network.masks = {}

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays stay on the host; the stock loop sends each batch to the device."""
        self._splits[split] = (
            inputs if isinstance(inputs, Stream) else self._stored(inputs),
            self._stored(labels.astype(np.int64)),
        )

    def _stored(self, array: np.ndarray) -> torch.Tensor:
        """Return an array as a tensor where batches are taken from: on the host."""
        return as_tensor(array)

    def _send(self, array: np.ndarray) -> torch.Tensor:
        return as_tensor(array).to(self._device)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        set_rates(self._optimizer, feed.rates)
        self._seed_dropout(feed.dropout_seed)
        self._network.train()
        steps = list(self._train(feed))
        losses = torch.hstack([loss for loss, _ in steps]).cpu().numpy().astype(np.float64)
        self._counted = {"samples": sum(samples for _, samples in steps), "batches": len(losses)}
        return losses

    def _train(self, feed: EpochFeed) -> Iterator[tuple[torch.Tensor, int]]:
        """Train on each batch and yield (its loss, number of its samples).

        The loss stays on the device, because reading it would make the host wait. A subclass may yield several steps
        at once: (their losses, number of their samples).
        """
        for inputs, labels in self._batches(feed):
            yield self._step(inputs, labels), len(inputs)

    def _seed_dropout(self, seed: int) -> None:
        torch.manual_seed(seed)

    def _step(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self._optimizer.zero_grad()
        loss = self._loss(inputs, labels)
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield (inputs, labels) of each step, on the device."""
        inputs, labels = self._splits["train"]
        if isinstance(inputs, Stream):
            yield from self._sent(inputs.training_batches(feed))
            return
        order: Any = None if feed.order is None else self._stored(feed.order)
        for images, of_images in replace(feed, order=order).batches(inputs, labels):
            yield images.to(self._device), of_images.to(self._device)

    def _sent(self, batches: Iterator[Batch]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        for images, labels in batches:
            yield self._send(images), self._send(labels.astype(np.int64))

    def _forward(self, inputs: torch.Tensor) -> list[torch.Tensor]:
        return self._network(inputs)

    def _loss(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the loss of a step: softmax cross entropy, plus the weighted ones of auxiliary heads."""
        loss, *auxiliary = (F.cross_entropy(logits, labels) for logits in self._forward(inputs))
        for (_, weight), head in zip(self._architecture.auxiliary, auxiliary, strict=True):
            loss = loss + weight * head
        return loss

    @torch.no_grad()
    def predict(self, split: str) -> np.ndarray:
        self._network.eval()
        logits = [self._network(inputs)[0] for inputs in self._stored_batches(split)]
        return torch.cat(logits).cpu().numpy()

    def _stored_batches(self, split: str) -> Iterator[torch.Tensor]:
        """Yield the inputs of a split in their stored order, in batches for evaluation, on the device."""
        inputs = self._splits[split][0]
        if isinstance(inputs, Stream):
            yield from (self._send(batch) for batch, _ in inputs.stored_batches(inputs.evaluation_batch_size))
        else:
            yield from (batch.to(self._device) for batch in inputs.split(evaluation_batch_size(self._architecture)))

    def weights(self) -> Weights:
        return {
            parameter.name: outputs_last(parameter, _to_numpy(self._network.array_of(parameter)))
            for parameter in self._architecture.arrays()
        }

    @torch.no_grad()
    def set_weights(self, weights: Weights) -> None:
        for parameter in self._architecture.arrays():
            array = outputs_first(parameter, weights[parameter.name])
            self._network.array_of(parameter).copy_(torch.tensor(array))

    def counted(self) -> dict[str, int]:
        return {**self._counted, "updates": int(self._optimizer.updates)}

    @torch.no_grad()
    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        inputs = self._splits[split][0][self._stored(np.asarray(indices))].to(self._device)
        shapes = self._architecture.shapes()
        outputs = {"input": _to_numpy(inputs)}
        state = self.state()
        self._network.train(training)
        for name, value in self._network.activations(inputs):
            check_shape(self.framework, name, value.shape[1:], shapes[name])
            outputs[name] = _to_numpy(value)
        self.set_state(state)
        return outputs

    def gradients(self) -> Weights:
        """See `adapter.ObservedAdapter.gradients`. torch keeps them until the next step."""
        return {
            parameter.name: outputs_last(parameter, _to_numpy(self._network.array_of(parameter).grad))
            for parameter in self._architecture.parameters()
        }

    def slots(self) -> Weights:
        return {name: outputs_last(parameter, _to_numpy(array)) for name, parameter, array in self._slots()}

    @torch.no_grad()
    def set_slots(self, slots: Weights, updates: int) -> None:
        for name, parameter, array in self._slots():
            array.copy_(torch.tensor(outputs_first(parameter, slots[name])))
        self._optimizer.set_updates(updates)

    def _slots(self) -> Iterator[tuple[str, Parameter, torch.Tensor]]:
        """Yield (name, parameter, the optimizer's array itself)."""
        names = list(zip(SLOTS[self._rule], self._optimizer.states, strict=True))
        for parameter in self._architecture.parameters():
            state = self._optimizer.state[self._network.array_of(parameter)]
            yield from ((f"{parameter.name}.{slot}", parameter, state[own]) for slot, own in names)

    def set_masks(self, masks: Weights) -> None:
        self._network.masks = {name: self._send(mask).to(self._dtype) for name, mask in masks.items()}

    def state(self) -> dict[str, np.ndarray]:
        return {name: _to_numpy(tensor) for name, tensor in self._state()}

    @torch.no_grad()
    def set_state(self, state: dict[str, np.ndarray]) -> None:
        for name, tensor in self._state():
            tensor.copy_(torch.tensor(state[name]))

    def _state(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._network.state_dict().items()
        yield from self._optimizer.arrays().items()

    def synchronize(self) -> None:
        """See `adapter.Adapter.synchronize`. On the CPU, torch's calls return when they are done."""
        if self._device.type == "cuda":
            torch_platform.synchronize(torch)

    def describe_device(self) -> dict[str, str]:
        device = next(self._network.parameters()).device
        if device.type != "cuda":
            return {"kind": device.type, "name": "torch"}
        return {"kind": "gpu", "name": torch_platform.gpu_name(torch, device.index)}

    def device_memory_mib(self) -> float | None:
        if self._device.type != "cuda":
            return None
        return torch_platform.peak_bytes(torch, 0) / 2**20

    def versions(self) -> dict[str, str]:
        return {"torch": str(torch.__version__), "numpy": np.__version__}

    def thread_pools(self) -> list[dict]:
        return [{"library": "torch", "threads": torch.get_num_threads()}]

    def matrix_operation(self, operation: str, side: int, times: int) -> Callable[[], object]:
        compute = getattr(torch, operation)
        matrices = [self._send(random_matrix(side, seed)) for seed in (1, 2)]
        result = torch.empty_like(matrices[0])

        def work() -> None:
            for _ in range(times):
                compute(*matrices, out=result)
            self.synchronize()

        return work


def as_tensor(array: np.ndarray) -> torch.Tensor:
    """Return an array as a tensor on the host, without a copy if torch takes it.

    It takes none with negative strides, and warns of those that are for reading alone.
    """
    return torch.from_numpy(np.require(array, requirements=("C", "W")))


def _to_numpy(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().to("cpu", copy=True).numpy()
