"""The only place that runs a training: from a run's settings and a prepared dataset to its record."""

import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from trainmark import prepared, transforms
from trainmark.architecture import Architecture
from trainmark.batches import epoch_feed, run_seed
from trainmark.errors import DeviceError
from trainmark.frameworks import create_adapter
from trainmark.frameworks.base import Adapter
from trainmark.ledger import Ledger
from trainmark.matrix import Run
from trainmark.provenance import describe_host
from trainmark.recipes import InputTransform, Recipe
from trainmark.records import encode_loss
from trainmark.weights import first_weights

DTYPE = "float32"


@dataclass(frozen=True)
class Settings:
    """What decides a run's arithmetic, besides the run's place in the matrix.

    batch_size: samples a step, None for the whole training set. step_losses: how many of them the record keeps.
    """

    seed: int
    batch_size: int | None
    input: InputTransform
    step_losses: int


Splits = dict[str, tuple[np.ndarray, np.ndarray]]
"""(images, labels) by split, as the network sees them."""

Progress = Callable[[dict], None]
"""Called after each epoch with its entry of the curves."""


def run_training(
    run: Run,
    recipe: Recipe,
    settings: Settings,
    dataset_folder: Path,
    mean_file: Path,
    threads: int,
    ledger: Ledger,
    progress: Progress,
) -> dict:
    """Train one run from a fresh model and return its record. A diverged run is a result, not an error.

    Raises DeviceError where the framework is not installed, does not see the run's device, or trains on another.
    """
    manifest = prepared.read_manifest(dataset_folder)
    with ledger.phase("import"):
        adapter = create_adapter(run.framework, threads)
    with ledger.phase("data_load"):
        splits = _transformed_splits(dataset_folder, mean_file, settings.input)
    architecture = recipe.architecture(splits["train"][0].shape[1:], manifest["classes"])
    with ledger.phase("build"):
        _build(adapter, architecture, run, recipe, settings, splits)
    samples = len(splits["train"][1])
    curves, losses = _train(adapter, run, recipe, settings, samples, ledger, progress)
    diverged = _divergence(losses, curves)
    provenance = {**describe_host(threads), "device": adapter.describe_device(), "versions": adapter.versions()}
    phases_seconds, wall_seconds = ledger.close()
    return {
        "schema_version": 1,
        "run": {"id": run.id, **asdict(run), "workers": 1, "loop": "stock"},
        "settings": _settings_of_record(architecture, recipe, settings, samples),
        "dataset": {
            "name": run.dataset,
            "content_sha256": manifest["content_sha256"],
            "samples": manifest["samples"],
        },
        "status": "diverged" if diverged else "ok",
        "diverged": diverged,
        "curves": curves,
        "step_losses": [encode_loss(loss) for loss in losses[: settings.step_losses]],
        "result": _result(curves),
        "phases_seconds": phases_seconds,
        "wall_seconds": wall_seconds,
        "provenance": provenance,
    }


def _build(
    adapter: Adapter, architecture: Architecture, run: Run, recipe: Recipe, settings: Settings, splits: Splits
) -> None:
    """Give the adapter network, weights and data; DeviceError where they did not come to lie on the run's device."""
    weights = first_weights(architecture, recipe.initializer, run_seed(settings.seed, run.repeat))
    adapter.build(
        architecture=architecture, weights=weights, optimizer=recipe.optimizer, device=run.device, dtype=DTYPE
    )
    for split, (images, labels) in splits.items():
        adapter.load(split=split, images=images, labels=labels)
    adapter.synchronize()
    if (found := adapter.describe_device())["kind"] != run.device:
        raise DeviceError(f"{run.framework} was asked for the device {run.device} and put its arrays on {found}")


def _settings_of_record(architecture: Architecture, recipe: Recipe, settings: Settings, samples: int) -> dict:
    return {
        "seed": settings.seed,
        "architecture": architecture.name,
        "parameters": architecture.parameter_count(),
        "dropout": any(node.op == "Dropout" for node in architecture.nodes),
        "initializer": recipe.initializer,
        "optimizer": recipe.optimizer.as_dict(),
        "batch_size": min(settings.batch_size or samples, samples),
        "dtype": DTYPE,
        "input": asdict(settings.input),
    }


def _transformed_splits(dataset_folder: Path, mean_file: Path, transform: InputTransform) -> Splits:
    mean = np.load(mean_file, allow_pickle=False)
    splits = {split: prepared.read_split(dataset_folder, split) for split in prepared.SPLITS}
    return {
        split: (transforms.apply(images, mean, transform, DTYPE), np.asarray(labels))
        for split, (images, labels) in splits.items()
    }


def _train(
    adapter: Adapter, run: Run, recipe: Recipe, settings: Settings, samples: int, ledger: Ledger, progress: Progress
) -> tuple[list[dict], list[float]]:
    """(curves, loss of every step). Stops after the first epoch in which the loss is not finite."""
    curves: list[dict] = []
    losses: list[float] = []
    for epoch in range(1, run.epochs + 1):
        feed = epoch_feed(samples, settings.batch_size, run_seed(settings.seed, run.repeat), epoch)
        with ledger.phase("training") as clock:
            epoch_losses = adapter.train_epoch(feed)
            adapter.synchronize()
        with ledger.phase("evaluation"):
            evaluations = {split: adapter.evaluate(split) for split in recipe.evaluated_splits}
        losses += epoch_losses.tolist()
        curves.append(
            {
                "epoch": epoch,
                "seconds": clock.seconds,
                "batch_loss": encode_loss(float(np.average(epoch_losses, weights=feed.batch_sizes()))),
                "evaluations": {
                    split: {"loss": encode_loss(loss), "accuracy": accuracy}
                    for split, (loss, accuracy) in evaluations.items()
                },
            }
        )
        progress(curves[-1])
        if not _finite(epoch_losses, evaluations):
            break
    return curves, losses


def _finite(epoch_losses: np.ndarray, evaluations: dict[str, tuple[float, float]]) -> bool:
    return bool(np.isfinite(epoch_losses).all() and np.isfinite([loss for loss, _ in evaluations.values()]).all())


def _divergence(losses: list[float], curves: list[dict]) -> dict | None:
    """The first step whose loss is not finite; or the last step, where only the evaluation after it is not."""
    wrong = next((step for step, loss in enumerate(losses) if not np.isfinite(loss)), None)
    if wrong is not None:
        kind = "nan" if np.isnan(losses[wrong]) else "inf"
        last_finite = losses[wrong - 1] if wrong else None
    else:
        texts = [entry["loss"] for entry in curves[-1]["evaluations"].values() if isinstance(entry["loss"], str)]
        if not texts:
            return None
        wrong, kind, last_finite = len(losses) - 1, "nan" if "NaN" in texts else "inf", losses[-1]
    steps_an_epoch = len(losses) // len(curves)
    return {"kind": kind, "epoch": wrong // steps_an_epoch + 1, "step": wrong + 1, "last_finite_loss": last_finite}


def _result(curves: list[dict]) -> dict:
    seconds = [entry["seconds"] for entry in curves]
    last = curves[-1]["evaluations"]
    train = last.get("train", {"loss": None, "accuracy": None})
    return {
        "epochs_trained": len(curves),
        "training_seconds": sum(seconds),
        "first_epoch_seconds": seconds[0],
        "steady_epoch_seconds": statistics.median(seconds[1:]) if len(seconds) > 1 else None,
        "test_loss": last["test"]["loss"],
        "test_accuracy": last["test"]["accuracy"],
        "train_loss": train["loss"],
        "train_accuracy": train["accuracy"],
    }
