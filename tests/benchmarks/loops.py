"""Seconds per epoch of the loops `stock` and `tuned` beside the framework's own example, and their peak memory.

Run: make bench-loops, or with DEVICE=gpu. For each recipe and framework a process is started for each of VARIANTS: the
example of the framework's documentation (EXAMPLES), the adapter's stock loop and its tuned loop, and on a GPU the
example as it ships. One after the other trains an epoch to warm up. Then they train in turn, one epoch each per round,
while the others wait. Ratios are those of the same round, and that of the fastest epochs: at its end an epoch of
Keras's example on TensorFlow often waits (docs/frameworks.md, data pipelines).

The images are those of MNIST in the mirror that the environment variable MNIST names, or else scikit-learn's digits,
enlarged and repeated. Random ones would not do: Adam's averages of units that are never active would fall below 1e-38,
and some CPUs then take many times longer in Chainer. The other data are random numbers of the shape of IMDB and of
ImageNet. All are in memory. The network of ImageNet is the ResNet-50 of the frameworks' own collections.
"""

import os
import resource
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from unittest import mock

import measuring
from measuring import in_turn, parser_of, print_heading, print_row, seconds_of

from trainmark.errors import MeasurementError
from trainmark.frameworks.registry import create_adapter, known_frameworks, set_environment
from trainmark.machine.gpus import limit_threads
from trainmark.machine.ranks import ALONE, Ranks
from trainmark.training.turns import Trainee

VARIANTS = {"cpu": ("example", "stock", "tuned"), "gpu": ("example", "as it ships", "stock", "tuned")}
"""What is measured beside each other, by device. There are others, for torch's example (torch_example.HOW)."""

IN_COMMAND_BUFFER = "tuned, loop in a command buffer"
LOOPS = {"stock": "stock", "tuned": "tuned", IN_COMMAND_BUFFER: "tuned"}
"""The variants of the adapter, and its loops. All other variants are of the example."""

ENVIRONMENTS = {
    "example": {"JAX_DEFAULT_MATMUL_PRECISION": "highest"},
    "as it ships": {"NVIDIA_TF32_OVERRIDE": None},
    "bfloat16": {"NVIDIA_TF32_OVERRIDE": None},
    IN_COMMAND_BUFFER: {
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_enable_command_buffer=+WHILE".strip()
    },
}
"""Environment variables of a variant beside those of its framework; None removes one. The example computes in IEEE
float32, as the loops do; as it ships, in TensorFloat-32 where that is its framework's default."""

ROUNDS = 5

SAMPLES = {"mnist-mlp-chainer": 60000, "mnist-mlp-keras": 60000, "mnist-mlp-flux": 60000, "imdb-cnn": 1600,
           "imagenet-resnet50": 16}  # fmt: skip
"""Number of samples per epoch: those of MNIST; fewer for the others, whose epochs take minutes or hours."""

BATCH_SIZES = {"imagenet-resnet50": 8}
"""Batch sizes other than the recipe's, for which two CPUs take a minute a step."""

ON_GPU = {"imagenet-resnet50": (640, 32)}
"""Samples per epoch and batch size on a GPU, if they are others there."""

EXAMPLES = {
    "chainer": ("examples", "chainer_trainer"),
    "flax": ("flax_example", "flax_trainer"),
    "keras": ("examples", "keras_trainer"),
    "torch": ("torch_example", "torch_trainer"),
}
"""Module and function of the example, by library."""


def data(recipe: str, samples: int | None = None) -> tuple:
    """Return (inputs, labels, number of classes) of a recipe."""
    import numpy as np

    from trainmark.recipes.catalogue import RECIPES

    generator, entry, samples = np.random.default_rng(0), RECIPES[recipe], samples or sizes_of(recipe)[0]
    if entry.input is None:
        return (
            generator.integers(0, 5000, (samples, *entry.input_shape), dtype=np.int32),
            generator.integers(0, 2, samples).astype(np.int32),
            2,
        )
    if recipe.startswith("mnist"):
        return *mnist(samples), 10
    inputs = generator.random((samples, *entry.input_shape), np.float32)
    return inputs, generator.integers(0, 10, samples).astype(np.int32), entry.published_classes


def mnist(samples: int) -> tuple:
    """Return (images, labels) of MNIST, or of the digits in its shape."""
    import numpy as np

    if mirror := os.environ.get("MNIST"):
        from trainmark.datasets.formats.idx import FILES, read_idx

        images, labels = (read_idx(Path(mirror, "mnist", name)) for name in FILES["train"])
        images = images[:samples, np.newaxis].astype(np.float32)
        images /= 255  # in place: a copy would be the peak of the memory, in all variants alike
        return images, labels[:samples].astype(np.int32)
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = np.pad(np.kron(images.reshape(-1, 8, 8) / 16, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2)))
    places = np.arange(samples) % len(images)
    return images[places, np.newaxis].astype(np.float32), labels[places].astype(np.int32)


def sizes_of(recipe: str, device: str = "cpu") -> tuple[int, int]:
    """Return the numbers of samples per epoch and per step."""
    from trainmark.recipes.catalogue import RECIPES

    on_cpu = SAMPLES[recipe], BATCH_SIZES.get(recipe, RECIPES[recipe].batch_size) or SAMPLES[recipe]
    return ON_GPU.get(recipe, on_cpu) if device == "gpu" else on_cpu


def example_of(
    framework: str, recipe: str, ranks: Ranks = ALONE, sizes: tuple[int, int] | None = None, **how: str
) -> Callable[[], object]:
    """Return a function that trains an epoch of the framework's example, of several ranks on their shares.

    sizes: see `sizes_of`. how: see `torch_example.torch_trainer`.
    """
    module, function = EXAMPLES[framework.partition("-")[0]]
    samples, batch = sizes or sizes_of(recipe)
    inputs, labels, _ = data(recipe, samples)
    mine = slice(ranks.rank, None, ranks.size)
    trainer = getattr(import_module(module), function)
    return trainer(recipe, inputs[mine], labels[mine], batch // ranks.size, shares=ranks.size > 1, **how)


def adapter_of(
    framework: str,
    recipe: str,
    loop: str = "stock",
    ranks: Ranks = ALONE,
    sizes: tuple[int, int] | None = None,
    device: str = "cpu",
) -> Callable[[], object]:
    """Return a function that trains an epoch with an adapter. sizes: see `sizes_of`."""
    from trainmark.recipes.batch_order import epoch_feed
    from trainmark.recipes.catalogue import RECIPES
    from trainmark.recipes.initial_weights import draw_initial_weights

    samples, batch = sizes or sizes_of(recipe, device)
    entry, (inputs, labels, classes) = RECIPES[recipe], data(recipe, samples)
    adapter = create_adapter(framework, len(os.sched_getaffinity(0)), loop, ranks=ranks)
    architecture = entry.architecture(inputs.shape[1:], classes)
    adapter.build(
        architecture=architecture, weights=draw_initial_weights(architecture, entry.initializer, (1, 1)),
        optimizer=entry.optimizer, device=device, dtype="float32",
    )  # fmt: skip
    adapter.load(split="train", inputs=inputs, labels=labels)
    feeds = (epoch_feed(len(inputs), batch, (1, 1), epoch) for epoch in range(1, 10**6))

    def train() -> None:
        adapter.train_epoch(next(feeds))
        adapter.synchronize()

    return train


def trainee(variant: str, framework: str, recipe: str, device: str, sizes: tuple[int, int]) -> Callable[[bool], float]:
    """Return a function that trains an epoch and returns its seconds or, if asked for it, the peak memory in MiB."""
    if variant in LOOPS:
        train = adapter_of(framework, recipe, LOOPS[variant], sizes=sizes, device=device)
    else:
        how = {"how": variant} if framework == "torch" else {}
        train = example_of(framework, recipe, sizes=sizes, **how)

    def turn(memory: bool) -> float:
        seconds = seconds_of(train)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 if memory else seconds

    return turn


def started(variant: str, create: Callable, device: str, framework: str, *arguments: object) -> Trainee:
    """Start a process on all CPUs, with the environment variables of a variant. arguments: those of `create`."""
    changes = ENVIRONMENTS.get(variant, {}) | ({"CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {})
    with mock.patch.dict(os.environ):
        limit_threads(sorted(os.sched_getaffinity(0)))
        set_environment(framework, LOOPS.get(variant, "stock"))
        for name, value in changes.items():
            os.environ.pop(name, None)
            os.environ.update({name: value} if value is not None else {})
        return Trainee(f"{variant} {framework}", create, *arguments)


def measured(
    framework: str,
    recipe: str,
    device: str = "cpu",
    variants: Sequence[str] = VARIANTS["cpu"],
    rounds: int = ROUNDS,
    sizes: tuple[int, int] | None = None,
    on_round: Callable[[dict], object] = lambda seconds: None,
) -> dict:
    """Return seconds of each round, MiB, and why a variant failed, by variant.

    sizes: see `sizes_of`. on_round: called with the seconds so far after each round.
    """
    sizes = sizes or sizes_of(recipe, device)
    processes = {
        variant: started(variant, trainee, device, framework, variant, framework, recipe, device, sizes)
        for variant in variants
    }
    failed, turns = {}, {}
    try:
        for variant, process in processes.items():  # one after the other: a warm-up also times algorithms
            try:
                process.take_turn(True)
                turns[variant] = partial(process.take_turn, False)
            except MeasurementError as error:
                failed[variant] = str(error)
        seconds = in_turn(turns, rounds, on_round)
        peak_mib = {variant: processes[variant].take_turn(True) for variant in seconds}
    finally:
        for process in processes.values():
            process.close()
    measured = {"seconds": seconds, "peak_mib": peak_mib, "failed": failed}
    return {"recipe": recipe, "framework": framework, "samples": sizes[0], **measured}


def ratio(of: list[float], to: list[float]) -> str:
    """Return the median and the range of the ratios of the rounds, and the ratio of the fastest epochs."""
    return f"{measuring.ratio(of, to)}, {min(of) / min(to):.2f}"


def cells(result: dict) -> list[str]:
    """Return a row of the table."""
    names = [result["recipe"], result["framework"]]
    if result["failed"]:
        return [*names, "; ".join(result["failed"].values())]
    seconds, mib = result["seconds"], result["peak_mib"]
    first, *others = seconds
    median = statistics.median(seconds[first])
    ratios = [ratio(seconds[variant], seconds[first]) for variant in others]
    memory = [f"{mib[variant] / mib[first]:.2f}" for variant in ("stock", "tuned")]
    return [*names, f"{median:.3f}", f"{result['samples'] / median:.0f}", *ratios, *memory]


def main() -> None:
    """Measure and print the table."""
    tuned = [name for name, entry in known_frameworks().items() if "tuned" in entry.loops]
    parser = parser_of(__doc__, frameworks=tuned, recipes=[*SAMPLES])
    parser.add_argument("--device", default="cpu", choices=VARIANTS)
    arguments = parser.parse_args()
    variants = VARIANTS[arguments.device]
    print(f"{arguments.device}, {len(os.sched_getaffinity(0))} CPUs, {ROUNDS} rounds")
    print("Ratios to the example: median (range), of the fastest epochs")
    print_heading("recipe", "framework", "example, s", "samples/s", *variants[1:], "memory: stock", "tuned")
    for recipe in arguments.recipes:
        for framework in arguments.frameworks:
            print_row(*cells(measured(framework, recipe, arguments.device, variants)))


if __name__ == "__main__":
    main()
