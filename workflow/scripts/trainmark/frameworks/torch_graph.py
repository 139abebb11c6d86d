"""Training steps of torch as a CUDA graph, and the update rule that one can't hold otherwise: for the tuned loop."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from itertools import islice
from typing import Any

import torch

from trainmark.frameworks.torch_optimizers import OwnRule

Batches = Callable[..., Iterable[tuple[torch.Tensor, torch.Tensor]]]
"""A function of tensors that returns batches (inputs, labels)."""


class Graph:
    """Training steps as a CUDA graph, which the host starts at once.

    step: function (inputs, labels) -> loss, which trains on a batch. Constants that it takes from the host, such as the
        learning rate, stay those of the capture.
    batches: returns the batches of the steps from tensors like `given`.
    given: first tensors of those that `run` takes. The graph reads its own copies of them.
    state: all tensors that a step changes. They are left as they are.
    """

    def __init__(self, step: Callable, batches: Batches, given: Sequence[torch.Tensor], state: list) -> None:
        self._given = [tensor.clone() for tensor in given]
        self._losses = torch.empty(())

        def work(steps: int | None = None) -> None:
            chosen = islice(batches(*self._given), steps)
            self._losses = torch.stack([step(inputs, labels) for inputs, labels in chosen])

        saved = [tensor.clone() for tensor in state]
        self._replay = captured(partial(work, 1), work)
        torch._foreach_copy_(state, saved)

    def run(self, *given: torch.Tensor) -> torch.Tensor:
        """Train the steps and return their losses, (steps,)."""
        for own, new in zip(self._given, given, strict=True):
            own.copy_(new)
        self._replay()
        return self._losses.clone()  # the next run overwrites them


def captured(warm_up: Callable[[], None], work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that repeats what `work` does on the GPU. The generator of torch stays as it is.

    warm_up: does once what `work` may repeat. Its runs, on a stream of their own, are those that torch's documentation
        asks for.
    """
    generator = torch.cuda.get_rng_state()
    stream = _stream_of_warm_up()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            warm_up()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    torch.cuda.set_rng_state(generator)
    return graph.replay


@cache
def _stream_of_warm_up() -> Any:
    """Return one stream for all captures: torch keeps memory of cuBLAS for each stream that it has computed on."""
    return torch.cuda.Stream()


class CapturedAdam(OwnRule):
    """Adam with epsilon added to the uncorrected root (update_rules.adam), for a CUDA graph.

    `torch_optimizers.Adam` computes another epsilon on the host in each step, which a graph would repeat. Here the
    corrections 1 - beta^t are on the device, in float64: in float32, 1 - 0.999 has four digits.
    """

    states = ("mean", "square")

    def __init__(self, parameters: Iterable[torch.nn.Parameter], lr: float, betas: Any, eps: float) -> None:
        super().__init__(parameters, lr, betas=betas, eps=eps)
        device = self._parameters()[0].device
        self._shares = 1 - torch.tensor(betas, dtype=torch.float64, device=device)
        self._corrections = torch.zeros_like(self._shares)
        self._ones = torch.ones_like(self._shares)

    def arrays(self) -> dict[str, torch.Tensor]:
        return {**super().arrays(), "corrections": self._corrections}

    def set_updates(self, updates: int) -> None:
        """See `Counted.set_updates`."""
        super().set_updates(updates)
        self._corrections.copy_(1 - (1 - self._shares) ** updates)

    def update(self, constants: dict, weights: list, gradients: list, *states: list) -> None:
        means, squares = states
        beta_1, beta_2 = constants["betas"]
        self._corrections.lerp_(self._ones, self._shares)  # 1 - beta^t from 1 - beta^(t - 1)
        factor = torch.empty((), dtype=weights[0].dtype, device=weights[0].device)
        torch.div(self._corrections[1].sqrt(), self._corrections[0], out=factor)
        torch._foreach_lerp_(means, gradients, 1 - beta_1)
        torch._foreach_mul_(squares, beta_2)
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - beta_2)
        roots = torch._foreach_sqrt(squares)
        torch._foreach_add_(roots, constants["eps"])
        torch._foreach_div_(roots, factor)
        torch._foreach_addcdiv_(weights, means, roots, value=-constants["lr"])
