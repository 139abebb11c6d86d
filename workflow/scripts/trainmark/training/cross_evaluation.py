"""Evaluate the trained weights of a trainer's runs with another trainer: does it get the results of their records?"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trainmark.datasets import prepared
from trainmark.files.whole import sync
from trainmark.frameworks.adapter import Adapter, evaluation_batch_size
from trainmark.frameworks.registry import known_frameworks
from trainmark.loading.splits import Split, open_splits
from trainmark.plan.code_digests import training_code
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.recipes.recipe import DTYPE, Recipe
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.recipes.stream import Stream
from trainmark.records.evaluation import REMOVED_FILE, agrees, read_evaluation_of_removed, write_evaluation
from trainmark.records.record import encode_loss, read_record
from trainmark.trainer import Trainer
from trainmark.training.audit import audit, has_reference
from trainmark.training.kept_weights import read_weights, remove_arrays


def cross_evaluation(
    adapter: Adapter,
    trainer: Trainer,
    recipe: Recipe,
    settings: Mapping,
    dataset_folder: Path,
    mean_file: Path | None,
    record_files: Iterable[Path],
    packed_folder: Path | None = None,
) -> dict:
    """Evaluate the weights of these runs on the test split; return the cross-evaluation (see `records.evaluation`).

    Runs without weights are left out. A run whose weights were removed keeps the entry of its earlier evaluation, with
    `current_code` brought up to date. Raises RecordError where weights are missing otherwise or are not the record's,
    and DeviceError where the framework does not see the device.
    """
    resolved = ResolvedTraining(recipe, settings, prepared.read_manifest(dataset_folder))
    records = {file: record for file in record_files if (record := read_record(file))["weights"]}
    earlier = {file: _evaluation_of_removed(file, record, recipe) for file, record in records.items()}
    there = {file: record for file, record in records.items() if earlier[file] is None}
    is_audited = any(record["weights"]["audit"] for record in there.values())
    names = ("train", "test") if is_audited else ("test",)
    splits = open_splits(resolved, dataset_folder, mean_file, adapter.threads, packed_folder, names) if there else {}
    evaluated = dict(_evaluated(adapter, trainer, resolved, there, splits))
    return {
        "trainer": str(trainer),
        "runs": {record["run"]["id"]: earlier[file] or evaluated[file] for file, record in records.items()},
    }


def _evaluated(
    adapter: Adapter,
    trainer: Trainer,
    resolved: ResolvedTraining,
    records: Mapping[Path, Mapping],
    splits: Mapping[str, Split],
) -> Iterator[tuple[Path, dict]]:
    """Yield (file of a record, entry of its run) of these runs, whose weights are there."""
    evaluator = {
        "trainer": str(trainer),
        "versions": adapter.versions(),
        "code_sha256": training_code(resolved.recipe, trainer)["sha256"],
        "current_code": True,
    }
    built = False
    for file, record in records.items():
        weights = read_weights(file, record, resolved.architecture)
        if not built:
            _build(adapter, trainer, resolved, weights, splits)
            built = True
        adapter.set_weights(weights)
        loss, accuracy = cross_entropy_and_accuracy(adapter.predict("test"), splits["test"][1])
        entry = {"weights_sha256": record["weights"]["sha256"], "loss": encode_loss(loss), "accuracy": accuracy}
        yield file, {**evaluator, **entry, "audit": audit(adapter, trainer, resolved, file, record, splits)}


def _build(
    adapter: Adapter, trainer: Trainer, resolved: ResolvedTraining, weights: Weights, splits: Mapping[str, Split]
) -> None:
    adapter.build(
        architecture=resolved.architecture,
        weights=weights,
        optimizer=resolved.first_optimizer,
        device=trainer.device,
        dtype=DTYPE,
    )
    adapter.check_device(trainer.device)
    loaded = {"test": splits["test"]} if has_reference(resolved) else splits  # numpy replays epochs, not the adapter
    for split, (inputs, labels) in loaded.items():
        if isinstance(inputs, Stream):
            inputs.evaluation_batch_size = evaluation_batch_size(resolved.architecture)
        adapter.load(split=split, inputs=inputs, labels=labels)


def _evaluation_of_removed(file: Path, record: Mapping, recipe: Recipe) -> dict | None:
    """Return the earlier entry of a run whose weights were removed; None if they are there, or were not evaluated."""
    weights_there = file.with_name(record["weights"]["file"]).exists()
    entry = None if weights_there else read_evaluation_of_removed(file, record)
    return {**entry, "current_code": _is_current_code(entry, recipe)} if entry else None


def _is_current_code(entry: Mapping, recipe: Recipe) -> bool:
    trainer = Trainer.parse(entry["trainer"])
    known = trainer.framework in known_frameworks()
    return known and entry["code_sha256"] == training_code(recipe, trainer)["sha256"]


def remove_evaluated_weights(evaluation: Mapping, record_files: Iterable[Path]) -> None:
    """Remove the weights of each run whose evaluation agrees with its record; keep the entry beside the record.

    Weights that don't agree stay: whoever looks for the cause needs them. The entry is on the disk before the weights
    go, so that a process that is killed here leaves the one or the other. evaluation: already written to its own file.
    """
    for file in record_files:
        record = read_record(file)
        run_id = record["run"]["id"]
        entry = evaluation["runs"].get(run_id)
        if entry is None or not agrees(record, entry):
            continue
        weights_file = file.with_name(record["weights"]["file"])
        if weights_file.exists():
            write_evaluation({**evaluation, "runs": {run_id: entry}}, file.with_name(REMOVED_FILE))
            sync(file.parent)
            remove_arrays(weights_file)
