"""The tuned loop of torch: fused updates, other layouts, cheaper masks and sums, and on the GPU a CUDA graph."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from trainmark.frameworks.torch_adapter import TorchAdapter
from trainmark.frameworks.torch_layers import LAYERS, MakeLayer, convolution
from trainmark.frameworks.torch_optimizers import OPTIMIZERS, SGD, Adam, AdamAlgorithm1, Counted
from trainmark.frameworks.tuning import StepsTaken
from trainmark.networks.graph import Architecture, maximised
from trainmark.recipes.batch_order import EpochFeed

TUNING = {
    "torch": {
        "fused": {"text": "updates in one pass over the weights"},
        "masks": {"text": "dropout masks from a faster generator", "device": "cpu", "op": "Dropout"},
        "maxima": {"text": "gradients only where a maximum over time is", "device": "cpu", "op": "GlobalMaxPool1D"},
        "images": {"text": "images with the channels last", "device": "cpu", "op": "BatchNorm"},
        "sums": {"text": "sums over channels as a product with a matrix", "device": "cpu", "op": "LRN"},
        "algorithms": {"text": "the fastest of cuDNN's algorithms", "device": "gpu", "op": "Conv"},
        "graph": {"text": "forward and backward pass as a CUDA graph", "device": "gpu"},
    }
}
"""The steps from the stock loop, see `tuning.TuningStep`."""


class Dropout(torch.nn.Dropout):
    """Dropout with masks of a generator of numpy's, which takes a fraction of the time of torch's on the CPU.

    bits: the generator, which the layers of a network share.
    """

    bits: Any

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Drop values in training. The mask lies in memory as the input does, and the rate is exact to 32 bits."""
        if not self.training:
            return input
        count = input.numel()
        drawn = self.bits.random_raw(count // 2 + 1).view(np.uint32)[:count]
        mask = torch.empty_like(input)
        mask.as_strided((count,), (1,)).copy_(torch.from_numpy(drawn >= np.uint32(self.p * 2**32))).div_(1 - self.p)
        return input * mask


class Conv1d(torch.nn.Conv1d):
    """A convolution of sequences that in training may give only the largest output of each filter.

    The gradient is then that of one window per filter and not of all.

    maximised: whether only the maximum over time is needed (`graph.maximised`).
    """

    maximised = False

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return (samples, filters, length); the length is 1 if only the maximum is needed."""
        if not (self.maximised and self.training and torch.is_grad_enabled()):
            return super().forward(input)
        samples, channels, length = input.shape
        with torch.no_grad():
            places = F.adaptive_max_pool1d(super().forward(input), 1, return_indices=True)[1] * self.stride[0]
        rows = torch.arange(samples)[:, None, None] * length + places + torch.arange(self.weight.shape[2])
        windows = F.embedding(rows, input.transpose(1, 2).reshape(-1, channels))  # its gradient is fast
        outputs = (windows * self.weight.transpose(1, 2)).sum((2, 3))
        return (outputs if self.bias is None else outputs + self.bias).unsqueeze(2)


class LocalResponseNorm(torch.nn.Module):
    """x / (k + alpha * sum of squares over n neighbouring channels)^beta.

    torch's own layer averages over a third axis, which takes longer than a product with a matrix of ones and zeros.
    """

    def __init__(self, channels: int, n: int, k: float, alpha: float, beta: float) -> None:
        super().__init__()
        self._channels, self._n, self._k, self._alpha, self._beta = channels, n, k, alpha, beta

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Return an array of the input's shape."""
        ones = input.new_ones(self._channels, self._channels)
        neighbours = ones.tril(self._n // 2).triu(-(self._n // 2))
        scale = F.conv2d(input.square(), self._alpha * neighbours[:, :, None, None]) + self._k
        if self._beta != 0.75:
            return input * scale.pow(-self._beta)
        root = scale.rsqrt()  # two roots take a fraction of the time of a power
        return input * root * root.sqrt()


class FusedRMSprop(Counted, torch.optim.Adam):
    """RMSprop (update_rules.rmsprop) by torch's fused Adam: torch has no fused RMSprop.

    It is Adam with beta_1 0 and no corrections. After LAST_STEP steps these are 1, and adding 1 does not change it.
    """

    LAST_STEP = 2**24

    def __init__(self, parameters: Any, lr: float, alpha: float, eps: float) -> None:
        super().__init__(parameters, lr=lr, betas=(0.0, alpha), eps=eps, fused=True)

    def begin(self) -> None:
        """See `Counted.begin`."""
        super().begin()
        for name, array in self.arrays().items():
            if name.endswith(".step"):
                array.fill_(self.LAST_STEP)


FUSED: Mapping[str, Callable[..., Counted]] = {
    "sgd": partial(SGD, fused=True),
    "adam": partial(Adam, fused=True),
    "adam_algorithm_1": partial(AdamAlgorithm1, fused=True),
    "rmsprop": FusedRMSprop,
}
"""The optimizers that torch updates in one pass, as entries of `torch_optimizers.OPTIMIZERS`."""


REPLACED: Mapping[str, tuple[str, MakeLayer]] = {
    "masks": ("Dropout", lambda node, shape: Dropout(node.attributes["rate"])),
    "maxima": ("Conv1D", lambda node, shape: convolution(Conv1d, node, shape)),
    "sums": (
        "LRN",
        lambda node, shape: LocalResponseNorm(
            shape[0], node.integer("n"), *(node.attributes[name] for name in ("k", "alpha", "beta"))
        ),
    ),
}
"""By step: type of a layer, and the function in place of that of `torch_layers.LAYERS`."""


class Graph:
    """The forward and backward pass of batches of one size as a CUDA graph: the host starts it at once.

    compute_loss: function (inputs, labels) -> loss. inputs, labels: those of the first batch.

    The gradients have memory of the graph. They must keep it: `zero_grad(set_to_none=False)`.
    """

    def __init__(
        self, network: torch.nn.Module, compute_loss: Callable, inputs: torch.Tensor, labels: torch.Tensor
    ) -> None:
        self._inputs, self._labels = inputs.clone(), labels.clone()
        self._loss = torch.empty(())

        def work() -> None:
            network.zero_grad()  # without gradients, the backward pass writes them; otherwise it would add to them
            loss = compute_loss(self._inputs, self._labels)
            loss.backward()
            self._loss = loss.detach()

        buffers = [buffer.clone() for buffer in network.buffers()]
        self._replay = captured(work)
        for buffer, before in zip(network.buffers(), buffers, strict=True):
            buffer.copy_(before)

    def fits(self, inputs: torch.Tensor) -> bool:
        """Return whether the graph takes batches of this size."""
        return inputs.shape == self._inputs.shape

    def run(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Compute the gradients of a batch and return its loss."""
        self._inputs.copy_(inputs)
        self._labels.copy_(labels)
        self._replay()
        return self._loss.clone()


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that repeats what `work` does on the GPU. The generator of torch stays as it is.

    The first runs, on a stream of their own, are those that torch's documentation asks for.
    """
    generator = torch.cuda.get_rng_state()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    torch.cuda.set_rng_state(generator)
    return graph.replay


def create(framework: str, threads: int, taken: StepsTaken) -> "TunedTorchAdapter":
    """Return the tuned adapter of a framework."""
    return TunedTorchAdapter(framework, threads, taken)


class TunedTorchAdapter(TorchAdapter):
    """See `adapter.Adapter`."""

    loop = "tuned"

    def __init__(self, framework: str, threads: int, taken: StepsTaken) -> None:
        super().__init__(framework, threads)
        self._taken = taken

    def build(self, *, architecture: Architecture, device: str, **arguments: Any) -> None:
        self._steps = self._taken({node.op for node in architecture.nodes}, device)
        self._layers = {**LAYERS, **dict(layer for step, layer in REPLACED.items() if step in self._steps)}
        self._optimizers = {**OPTIMIZERS, **(FUSED if "fused" in self._steps else {})}
        self._memory_format = torch.channels_last if "images" in self._steps else torch.contiguous_format
        torch.backends.cudnn.benchmark = "algorithms" in self._steps
        self._graph: Graph | None = None
        super().build(architecture=architecture, device=device, **arguments)
        for name in maximised(architecture) if "maxima" in self._steps else ():
            self._network.layer(name).maximised = True

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        self._batch_size = feed.batch_size
        return super().train_epoch(feed)

    def _seed_dropout(self, seed: int) -> None:
        super()._seed_dropout(seed)
        bits = np.random.SFC64(seed)
        for layer in self._network.modules():
            if isinstance(layer, Dropout):
                layer.bits = bits

    def _step(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if "graph" not in self._steps or self._network.masks is not None:
            return super()._step(inputs, labels)
        if len(inputs) == self._batch_size:
            if self._graph is None or not self._graph.fits(inputs):
                self._graph = Graph(self._network, self._loss, inputs, labels)
            loss = self._graph.run(inputs, labels)
        else:  # the last batch
            self._optimizer.zero_grad(set_to_none=False)
            loss = self._loss(inputs, labels)
            loss.backward()
        self._optimizer.step()
        return loss.detach()
