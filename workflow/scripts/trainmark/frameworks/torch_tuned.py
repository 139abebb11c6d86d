"""The tuned loop of torch: fused updates, other layouts, cheaper masks and sums, and on the GPU CUDA graphs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from trainmark.frameworks.torch_adapter import TorchAdapter, as_tensor
from trainmark.frameworks.torch_graph import Batches, CapturedAdam, Graph
from trainmark.frameworks.torch_layers import LAYERS, MakeLayer, convolution
from trainmark.frameworks.torch_optimizers import OPTIMIZERS, SGD, Adam, AdamAlgorithm1, Counted
from trainmark.frameworks.tuning import StepsTaken
from trainmark.networks.graph import Architecture, maximised
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.stream import Batch, Stream

TUNING = {
    "torch": {
        "resident": {"text": "arrays on the device", "device": "gpu", "resident": True},
        "ahead": {"text": "batches sent while the step before is computed", "device": "gpu", "streamed": True},
        "fused": {"text": "updates in one pass over the weights"},
        "masks": {"text": "dropout masks from a faster generator", "device": "cpu", "op": "Dropout"},
        "maxima": {"text": "gradients only where a maximum over time is", "device": "cpu", "op": "GlobalMaxPool1D"},
        "images": {"text": "images with the channels last", "device": "cpu", "op": "BatchNorm"},
        "sums": {"text": "sums over channels as a product with a matrix", "device": "cpu", "op": "LRN"},
        "algorithms": {"text": "the fastest of cuDNN's algorithms", "device": "gpu", "op": "Conv"},
        "graph": {"text": "steps of forward pass, backward pass and update as a CUDA graph", "device": "gpu"},
    }
}
"""The steps from the stock loop, see `tuning.TuningStep`."""

GRAPH_STEPS = 20
"""Number of steps of a CUDA graph on arrays on the device; the steps of an epoch that are left have a graph of one.

The host's work to start a graph is then small beside that of the GPU. Another number would do: 20 to 50 are usual.
"""


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
    states = ("exp_avg_sq",)

    def __init__(self, parameters: Any, lr: float, alpha: float, eps: float) -> None:
        super().__init__(parameters, lr=lr, betas=(0.0, alpha), eps=eps, fused=True, capturable=True)

    def begin(self) -> None:
        """See `Counted.begin`."""
        super().begin()
        for name, array in self.arrays().items():
            if name.endswith(".step"):
                array.fill_(self.LAST_STEP)

    def set_updates(self, updates: int) -> None:
        """See `Counted.set_updates`."""
        self.updates.fill_(updates)


FUSED: Mapping[str, Callable[..., Counted]] = {
    "sgd": partial(SGD, fused=True),
    "adam": partial(Adam, fused=True),
    "adam_algorithm_1": partial(AdamAlgorithm1, fused=True, capturable=True),
    "rmsprop": FusedRMSprop,
}
"""The optimizers that torch updates in one pass, as entries of `torch_optimizers.OPTIMIZERS`.

`capturable` lets torch's Adam be captured as a CUDA graph. Without a graph, a fused one computes the same with it.
"""

CAPTURED: Mapping[str, Callable[..., Counted]] = {"adam": CapturedAdam}
"""The optimizers in place of those that a CUDA graph can't hold: with constants that change in each step."""

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
        self._optimizers = dict(OPTIMIZERS)
        for step, rules in (("fused", FUSED), ("graph", CAPTURED)):
            self._optimizers |= rules if step in self._steps else {}
        self._memory_format = torch.channels_last if "images" in self._steps else torch.contiguous_format
        torch.backends.cudnn.benchmark = "algorithms" in self._steps
        self._graphs: dict[Any, Graph] = {}
        self._constants: list[dict] = []  # those of the optimizer that the graphs hold
        super().build(architecture=architecture, device=device, **arguments)
        self._copying = torch.cuda.Stream() if "ahead" in self._steps else None
        if "graph" in self._steps:
            self._optimizer.updates = self._optimizer.updates.to(self._device)
        for name in maximised(architecture) if "maxima" in self._steps else ():
            self._network.layer(name).maximised = True

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        super().load(split=split, inputs=inputs, labels=labels)
        self._graphs.clear()  # they read the arrays of before

    def _stored(self, array: np.ndarray) -> torch.Tensor:
        stored = super()._stored(array)
        return stored.to(self._device) if "resident" in self._steps else stored

    def compile(self, feed: EpochFeed) -> None:
        """See `adapter.Adapter.compile`. Trains once by each graph that the feed needs, and a smaller last batch."""
        if not self._uses_graphs or isinstance(self._splits["train"][0], Stream):
            super().compile(feed)
            return
        whole, last = divmod(feed.samples, feed.batch_size)
        steps = GRAPH_STEPS * (whole >= GRAPH_STEPS) + (whole % GRAPH_STEPS > 0)
        samples = steps * feed.batch_size + last
        order = None if feed.order is None else feed.order[:samples]
        self.train_epoch(replace(feed, order=order, samples=samples))

    def _seed_dropout(self, seed: int) -> None:
        super()._seed_dropout(seed)
        bits = np.random.SFC64(seed)
        for layer in self._network.modules():
            if isinstance(layer, Dropout):
                layer.bits = bits

    def _sent(self, batches: Iterator[Batch]) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield the batches of a stream, on the device. Each is taken and sent while the step before is computed.

        The copies are made on a stream of their own, from pinned memory, which torch keeps until they are made.
        """
        if self._copying is None:
            yield from super()._sent(batches)
            return
        training, trained = torch.cuda.current_stream(), None
        for images, labels in batches:
            with torch.cuda.stream(self._copying):
                pinned = [as_tensor(array).pin_memory() for array in (images, labels.astype(np.int64))]
                inputs, classes = (tensor.to(self._device, non_blocking=True) for tensor in pinned)
            training.wait_stream(self._copying)
            for tensor in (inputs, classes):
                tensor.record_stream(training)  # its memory is used again only when the step is done
            yield inputs, classes
            # The host is at most two steps ahead. Further ahead it would hold ever more batches, and its time in the
            # stream, which counts as waiting for data, would be that in which the GPU still has steps to compute.
            if trained:
                trained.synchronize()
            trained = training.record_event(torch.cuda.Event(blocking=True))  # leaves its CPU to the stream's workers

    # --- CUDA graphs ----------------------------------------------------------------------------------------------

    @property
    def _uses_graphs(self) -> bool:
        """Whether steps are captured and replayed. Those of an observed network are not: the host sets its masks."""
        return "graph" in self._steps and self._network.masks is None

    def _train(self, feed: EpochFeed) -> Iterator[tuple[torch.Tensor, int]]:
        inputs, labels = self._splits["train"]
        if not self._uses_graphs:
            yield from super()._train(feed)
        elif isinstance(inputs, Stream):
            for images, of_images in self._batches(feed):
                is_whole = len(images) == feed.batch_size
                train = partial(self._replay, _alone) if is_whole else self._step
                yield train(images, of_images), len(images)
        elif feed.order is None and feed.samples == feed.batch_size == len(labels):
            yield self._replay(partial(feed.batches, inputs, labels)), feed.samples
        else:
            yield from self._train_resident(feed)

    def _train_resident(self, feed: EpochFeed) -> Iterator[tuple[torch.Tensor, int]]:
        """See `_train`: by graphs that take their batches from the arrays on the device."""
        inputs, labels = self._splits["train"]

        def batches(rows: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
            return ((inputs[batch], labels[batch]) for batch in rows)

        ordered = feed if feed.order is not None else replace(feed, order=np.arange(feed.samples))
        whole, last = (self._stored(rows).long() for rows in ordered.whole_batches())
        single = len(whole) - len(whole) % GRAPH_STEPS
        for first, end in pairwise([*range(0, single, GRAPH_STEPS), *range(single, len(whole) + 1)]):
            rows = whole[first:end]
            yield self._replay(batches, rows), rows.numel()
        if len(last):
            yield self._step(inputs[last], labels[last]), len(last)

    def _replay(self, batches: Batches, *given: torch.Tensor) -> torch.Tensor:
        """Train the batches of `given` by a graph and return their losses, (steps,). See `Graph`."""
        constants = [
            {name: value for name, value in group.items() if name != "params"} for group in self._optimizer.param_groups
        ]
        if constants != self._constants:
            self._graphs.clear()
            self._constants = constants
        key = tuple(tensor.shape for tensor in given)
        if key not in self._graphs:
            state = [tensor for _, tensor in self._state()]
            self._graphs[key] = Graph(self._step, batches, given, state)
        return self._graphs[key].run(*given)


def _alone(inputs: torch.Tensor, labels: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return the batches of a graph of one step: that which it is given."""
    return [(inputs, labels)]
