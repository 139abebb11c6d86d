"""What is reported of a file of the original ImageNet recipe: its defects, and what its program did otherwise."""

from collections.abc import Iterator, Mapping
from typing import Any

GPUS = {"f_node": 4, "h_node": 2, "q_node": 1, "s_gpu": 1}
"""Number of GPUs, and so of workers, of a node of each type."""

REMOVED = ("hierarchical", "two_dimensional", "single_node")
"""Communicators that ChainerMN lost with Chainer 7."""


YES_OR_NO = {True: "y", False: "n"}
"""What a truth value among the options of the job was meant to be."""


class UnquotedTime(str):
    """A time that stands without quotes where YAML 1.1 reads a number to the base 60."""


def workers_of(settings: Mapping[str, Any]) -> int:
    """Return the number of workers of the original: one for each GPU of its nodes."""
    return int(settings.get("nnodes", 1) * GPUS[settings.get("nodetype", "q_node")])


def defects(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (key, sentence) of each defect, and of each setting that has no place in an experiment file."""
    for key, value in settings.items():
        if isinstance(value, UnquotedTime):
            yield (
                key,
                f"{value} without quotes is the number {_base_60(value)} in YAML 1.1; read as text, write '{value}'",
            )
        if key in REPORTS:
            yield from ((key, sentence) for sentence in REPORTS[key](value, settings))


def _base_60(text: str) -> int:
    total = 0
    for part in text.split(":"):
        total = 60 * total + int(float(part))
    return total


def _on_classes(classes: int, settings: Mapping) -> Iterator[str]:
    if settings.get("train") or settings.get("dataset_dir"):
        yield "the classes are counted in the lists of images"
    elif classes < 1000:
        yield f"the original's head had 1000 outputs whatever nclasses said; here it has {classes}"
        yield (
            f"the original drew its {classes} classes without a seed and kept their numbers; here they are drawn by a "
            "seed and numbered from 0, so that they are other classes"
        )


def _on_mean(path: str | None, _: Mapping) -> Iterator[str]:
    named = f"{path} is not read: " if path else ""
    yield f"{named}the mean image of the training images is computed and subtracted (input.subtract_mean)"
    yield (
        "the original always subtracted the top left window of the mean image; here it is the window of the image "
        "(with input: {mean_window: top-left} as there)"
    )


def _on_resume(path: str | None, _: Mapping) -> Iterator[str]:
    if path:
        yield "the original took no snapshot to resume from; here a run resumes from its checkpoint by itself"


def _on_initmodel(path: str | None, _: Mapping) -> Iterator[str]:
    if path:
        yield (
            f"{path} is a snapshot of Chainer, which is not read; initial_weights takes weights.npz of another run "
            "(keep_weights: true), and the runs begin with weights drawn from the seed"
        )


def _on_initmodels(folder: str | None, settings: Mapping) -> Iterator[str]:
    yield from _on_initmodel(f"{folder}/{settings['arch']}.npz" if folder else None, settings)


def _on_dataset_dir(folder: str | None, settings: Mapping) -> Iterator[str]:
    if folder and not settings.get("root"):
        yield "the paths in its train.txt and val.txt start there; the original's started where its program ran"
    if folder and "optimizer" not in settings:
        yield (
            "the original trained with rmsprop_warmup in the folder of that name and with momentum_sgd elsewhere; the "
            "runs train with momentum_sgd (with optimizer: {rule: rmsprop_warmup, legacy: true} as there)"
        )


def _on_test(test: bool | None, _: Mapping) -> Iterator[str]:
    if test is False:
        yield "the original evaluated every 10 iterations for false, too; here false is read as null"


def _on_communicator(communicator: str, _: Mapping) -> Iterator[str]:
    removed = f"{communicator} was removed in Chainer 7; " if communicator in REMOVED else ""
    yield f"{removed}several workers here exchange gradients by pure_nccl on GPUs, and by naive on CPUs"


def _on_batch_size(size: int, settings: Mapping) -> Iterator[str]:
    if (workers := workers_of(settings)) > 1:
        yield (
            f"the original's batches of {size} were those of each of its {workers} workers; here batch_size is that of "
            f"all together, {workers * size}"
        )


def _on_optimizer(rule: str, _: Mapping) -> Iterator[str]:
    if rule == "rmsprop_warmup":
        yield (
            "as published, its warm-up overshoots in epoch 12, and so it does here (legacy: true); it is continuous "
            "without legacy"
        )


def _on_out(folder: str, _: Mapping) -> Iterator[str]:
    yield f"the results folder is chosen with snakemake --directory {folder}"


def _on_others(others: Mapping | None, _: Mapping) -> Iterator[str]:
    for key, value in (others or {}).items():
        if isinstance(value, bool):
            yield (
                f"{key} is {str(value).lower()} in YAML 1.1 without quotes, and the original passed on -{key} {value}; "
                f"read as {key}: {YES_OR_NO[value]}"
            )


def _on_vars(path: str | None, _: Mapping) -> Iterator[str]:
    if path:
        yield f"each job read {path}; write its lines into the file that modules names in config/site.yaml"


def _on_modules(modules: object, _: Mapping) -> Iterator[str]:
    if isinstance(modules, dict):
        lines = "; ".join(f"module load {module}" for module in modules.values())
        yield f"modules in config/site.yaml names a file; write the lines into one: {lines}"


REPORTS: dict[str, Any] = {
    "nclasses": _on_classes,
    "mean": _on_mean,
    "resume": _on_resume,
    "initmodel": _on_initmodel,
    "initmodels": _on_initmodels,
    "dataset_dir": _on_dataset_dir,
    "test": _on_test,
    "communicator": _on_communicator,
    "batchsize": _on_batch_size,
    "optimizer": _on_optimizer,
    "out": _on_out,
    "others": _on_others,
    "vars": _on_vars,
    "modules": _on_modules,
}
"""By key, a function (value, settings) that yields sentences."""
