"""How much do replays of an audited epoch differ that have other masks, or start from slightly changed weights?

Run: make bench-replays, after an experiment with `keep_weights: true`. For each audited run in results/, each pair of
--replays replays in numpy or torch, and of a replay and the run: the relative difference of the size of the weight
change in the layer in the middle by it, and in the furthest one; that of the mean losses; and the step at which losses
come 10 % apart. The limits of the audit (training/audit.py) come from these.
"""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
from measuring import parser_of

from trainmark.datasets import prepared
from trainmark.frameworks.adapter import Adapter
from trainmark.frameworks.registry import create_adapter, set_environment
from trainmark.loading.splits import open_splits
from trainmark.plan.plan_file import read_plan
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import perturb
from trainmark.recipes.outputs import relative_differences
from trainmark.recipes.recipe import DTYPE
from trainmark.recipes.reference import Reference
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.records.record import read_record
from trainmark.training import audit
from trainmark.training.audited_epoch import read_kept

APART = 0.1
THREADS = 2


def replaying(resolved: ResolvedTraining, kept: audit.KeptEpoch, splits: dict) -> audit.Replaying:
    """The reference where it has all layers, otherwise torch, with the training split loaded."""
    one: Reference | Adapter
    if audit.has_reference(resolved):
        one = Reference(resolved.architecture, kept.before, resolved.first_optimizer)
    else:
        one = create_adapter("torch", THREADS)
        one.build(
            architecture=resolved.architecture, weights=kept.before, optimizer=resolved.first_optimizer, device="cpu",
            dtype=DTYPE,
        )  # fmt: skip
    one.load(split="train", inputs=splits["train"][0], labels=splits["train"][1])
    return one


def compared(results: Path, file: Path, record: dict, replays: int) -> Iterator[str]:
    """A line for each pair of replays of an audited run, and of a replay and the run."""
    run = record["run"]
    folder = results / read_plan(results / "plan.json")["datasets"][run["dataset"]]["folder"]
    resolved = ResolvedTraining(RECIPES[run["recipe"]], record["settings"], prepared.read_manifest(folder / "prepared"))
    mean = folder / "mean.npy" if (folder / "mean.npy").exists() else None
    splits = open_splits(resolved, folder / "prepared", mean, THREADS, None, ("train", "test"))
    kept = read_kept(file, record, resolved.architecture, resolved.optimizer.rule)
    audited = audit.AuditedRun(resolved, record, kept, splits)
    one, epochs = replaying(resolved, kept, splits), {"run": audited.run}
    for number in range(1, replays + 1):
        if resolved.architecture.has_dropout:
            epochs[f"replay {number}"] = audited.replay(one, kept.before, number)
        else:
            epochs[f"replay {number}"] = audited.replay(one, perturb(kept.before, audit.COPY_CHANGE, number))
    for (name, first), (other, second) in combinations(epochs.items(), 2):
        sizes = audit.size_differences(first, [second], audited.layers)
        in_order = sorted(sizes.values())
        apart = np.abs(relative_differences(first.losses, second.losses)) > APART
        loss = first.losses.mean() / second.losses.mean() - 1
        yield (
            f"{run['id']}, epoch {kept.epoch}: {name} and {other}: size {in_order[len(in_order) // 2]:+.3f} in the "
            f"middle, {max(in_order, key=abs):+.3f} at most; mean loss {loss:+.4f}; "
            f"10 % apart at step {np.argmax(apart) + 1 if apart.any() else 'none'} of {len(apart)}"
        )


def main() -> None:
    """Print the lines of all audited runs whose weights were kept."""
    parser = parser_of(__doc__, replays=3)
    parser.add_argument("--results", type=Path, default=Path("results"), help="results folder")
    arguments = parser.parse_args()
    set_environment("torch", "stock")
    for file in sorted(arguments.results.glob("runs/**/record.json")):
        record = read_record(file)
        if record["weights"] and record["weights"]["audit"]:
            for line in compared(arguments.results, file, record, arguments.replays):
                print(line, flush=True)


if __name__ == "__main__":
    main()
