"""The time of a training step of an imported network beside one of the torch.nn.Module that it was imported from.

Run: make bench-imported. Both are modules of torch that the same loop trains, in float32, in one process and in turn.
The ratio is that of one round. torch orders the axes of a sequence as the module does; a graph has the channels first.
"""

import os
import statistics

import torch
from imported.imported_models import MODELS
from measuring import in_turn, parser_of, print_heading, print_row, seconds_of
from torch.nn import functional as F

from trainmark.importing.network import SAMPLES, Builder, traced
from trainmark.importing.proof import as_module, initial_weights

BATCH, STEPS = 32, 4

SIZES = {
    "resnet18": ({"width": 16, "classes": 10}, (3, 64, 64)),
    "mobilenet_v2": ({"width": 0.5, "last": 640, "classes": 10}, (3, 64, 64)),
    "densenet121": ({"depths": (3, 6, 12, 8), "growth": 12, "classes": 10}, (3, 64, 64)),
    "convnext_tiny": ({"depths": (2, 2, 4, 2), "dims": (32, 64, 128, 256), "classes": 10}, (3, 64, 64)),
    "vit_b_16": ({"side": 128, "depth": 4, "width": 192, "heads": 3, "classes": 10}, (3, 128, 128)),
}
"""Arguments of the models, and their inputs: as large as a CPU trains in a second."""


def steps_of(network: torch.nn.Module, inputs: torch.Tensor, labels: torch.Tensor):
    """Return a function that trains some steps."""
    optimizer = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9)
    network.train()

    def train():
        for _ in range(STEPS):
            optimizer.zero_grad()
            logits = network(inputs)
            F.cross_entropy(logits[0] if isinstance(logits, list) else logits, labels).backward()
            optimizer.step()

    return train


def main() -> None:
    """Measure each network and print the table."""
    arguments = parser_of(__doc__, rounds=15, networks=[*SIZES]).parse_args()
    print(
        f"{len(os.sched_getaffinity(0))} CPUs, {arguments.rounds} rounds; ratio of the imported network to the module"
    )
    print_heading("network", "module, ms per step", "ratio, median", "its quartiles")
    for name in arguments.networks:
        sizes, shape = SIZES[name]
        torch.manual_seed(1)
        module = MODELS[name].make(**sizes)
        imported = Builder(traced(module, torch.randn(SAMPLES, *shape)), shape).build(name)
        network = as_module(imported.architecture, initial_weights(imported, module), torch.float32)
        inputs, labels = torch.randn(BATCH, *shape), torch.arange(BATCH) % 10
        ways = {"module": steps_of(module, inputs, labels), "imported": steps_of(network, inputs, labels)}
        in_turn(ways, 1)
        seconds = in_turn({way: lambda train=train: seconds_of(train) for way, train in ways.items()}, arguments.rounds)
        ratios = [ours / theirs for ours, theirs in zip(seconds["imported"], seconds["module"], strict=True)]
        low, median, high = statistics.quantiles(ratios, n=4)
        own = 1000 * statistics.median(seconds["module"]) / STEPS
        print_row(name, f"{own:.0f}", f"{median:.2f}", f"{low:.2f} to {high:.2f}")


if __name__ == "__main__":
    main()
