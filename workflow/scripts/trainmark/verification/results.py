"""Checks that the files of a results folder are those that its records give, and tells which code and config made them.

The folder may come from somebody else: its files are read, and none of them is trusted.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainmark.checks.records import read_records
from trainmark.config.load import default_settings
from trainmark.datasets.prepared import ARRAY_KINDS, read_manifest, read_splits
from trainmark.errors import DataError, TrainmarkError
from trainmark.files.checksums import sha256_of
from trainmark.files.system_files import own_paths
from trainmark.frameworks.registry import known_frameworks
from trainmark.paper.kit import make_kit
from trainmark.plan.code_digests import run_code
from trainmark.plan.matrix import expand_runs, trained_order
from trainmark.plan.plan_file import read_plan, refuse_other_folders
from trainmark.plan.products import MANIFEST, PAPER_FILES, prepared_in
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.evaluation import RECORD_AGAIN, agrees, read_evaluation_of_removed
from trainmark.records.record import AGAIN
from trainmark.report.remade import make_report, make_tables_and_figures
from trainmark.tables.frames import is_same_parquet
from trainmark.tables.remarks import missing_lines
from trainmark.trainer import Trainer

BROKEN = (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, AssertionError)
"""Exceptions, besides TrainmarkError, that reading a tampered file may raise."""

KINDS = {"tables": "table", "figures": "figure", "paper": "file of the paper"}
"""What files that are made from the records are called, by the first part of their path: "report", if it is another."""

READ = ("plan.json", "runs", "certificates", "evaluations", "tuning", "datasets")
"""Files and folders from which all others are made."""


@dataclass
class Verified:
    """The result of a verification.

    counts: for each kind of file, how many were checked and how many are wrong.
    problems: a sentence for each problem.
    facts: a sentence for each fact that is no problem, such as the code of the runs.
    """

    counts: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))
    problems: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def check(self, kind: str, file: Path, check_file: Callable, *arguments: Any) -> Any:
        """Return what `check_file(*arguments)` returns. If it raises, note a problem and return None."""
        try:
            value, problem = check_file(*arguments), None
        except TrainmarkError as error:
            value, problem = None, str(error)
        except FileNotFoundError as error:
            value, problem = None, f"{error.filename or file} is missing; run snakemake again, which makes it"
        except BROKEN as error:
            value, problem = None, f"{file}: can't be read as a {kind} ({type(error).__name__}: {error})"
        self.counts[kind].update(checked=1, wrong=int(bool(problem)))
        self.problems += [problem] if problem else []
        return value


def verify_results(folder: Path, data: bool) -> Verified:
    """Check everything in a results folder. Raises DataError if it is not one, or one of other folders.

    data: also read the prepared arrays of the datasets, which may be large.
    """
    if not any((folder / name).is_dir() for name in ("runs", "certificates", "tables", "datasets")):
        raise DataError(f"{folder} is not a results folder: it holds no runs, certificates, tables or datasets")
    verified = Verified()
    # Pipes, devices and broken links must never be opened: reading them could block or never end.
    if special := [path for path in folder.rglob("*") if not (path.is_file() or path.is_dir())]:
        verified.problems += [f"{path} is neither file nor folder, nor a link to one; delete it" for path in special]
        return verified
    refuse_other_folders(folder / "plan.json")
    plan = verified.check("plan", folder / "plan.json", _read_checked_plan, folder / "plan.json")
    records = {
        run_id: verified.check("record", folder / path, _check_record, folder, run_id, path, plan)
        for run_id, path in (plan["records"].items() if plan else ())
    }
    removed = 0
    for run_id, record in records.items():
        if record and record["weights"]:
            file = (folder / plan["records"][run_id]).with_name(record["weights"]["file"])
            removed += verified.check("weights", file, _check_weights, file, record) or 0
    if removed:
        verified.facts.append(f"weights of {removed} run{'s' if removed > 1 else ''} removed after their evaluation")
    for name, one in plan["datasets"].items() if plan else ():
        if (path := folder / prepared_in(one["folder"])).is_dir():  # it may have been deleted since
            verified.check("dataset", path, _check_dataset, path, name, records, data)
    if verified.problems:
        verified.facts.append("what is made from the records was not checked, because of the problems above")
    elif plan:
        verified.check("campaign", folder, _check_made, verified, folder, plan)
        verified.problems += missing_lines(plan)
    verified.facts += _code_of_runs(record for record in records.values() if record)
    return verified


def _read_checked_plan(path: Path) -> dict:
    """Read the plan. Raises DataError if its runs are not those of its config: a run may have been left out."""
    plan = read_plan(path)
    runs = expand_runs(plan["config"])
    order = [run.id for run in trained_order(runs, plan["config"])]
    if [run.id for run in runs if run.id not in plan["missing"]] != list(plan["records"]) or order != plan["order"]:
        raise DataError(f"{path}: its runs are not the runs of its config; run snakemake, which rewrites it")
    for file in (*plan["records"].values(), *(one["folder"] for one in plan["datasets"].values())):
        Path(file)  # raises TypeError for what is none
    return plan


def _check_record(folder: Path, run_id: str, file: str, plan: Mapping) -> dict:
    (record,) = read_records(folder, {run_id: file}).values()
    path, run = folder / file, record["run"]
    experiment = plan["config"]["experiments"][run["experiment"]]
    for key, value in record["settings"].items():
        if experiment.get(key) != value:
            raise DataError(
                f"{path} was trained with {key}: {value}, but plan.json has {key}: {experiment.get(key)}; {AGAIN}"
            )
    if run["framework"] == FRAMEWORK and experiment["commands"][run["recipe"]] != record["inputs"]["recipe"]:
        raise DataError(f"{path} is of another command than {run['recipe']} in plan.json; {AGAIN}")
    return record


def _check_weights(file: Path, record: Mapping) -> bool:
    """Whether a run's weights were removed after an evaluation that agrees with its record.

    Raises DataError if they are missing for another reason, or are not the record's.
    """
    if not file.is_file():
        entry = read_evaluation_of_removed(file.with_name("record.json"), record)
        if entry and agrees(record, entry):
            return True
    for entry in filter(None, (record["weights"], record["weights"]["audit"])):
        path = file.with_name(entry["file"])
        if not path.is_file():
            raise DataError(f"{path}, of the weights of a run, is missing; {RECORD_AGAIN}")
        if sha256_of(path) != entry["sha256"]:
            raise DataError(
                f"{path} was changed, or is of another run: its SHA-256 is not the one in the record; {RECORD_AGAIN}"
            )
    return False


def _check_dataset(folder: Path, name: str, records: Mapping[str, dict | None], data: bool) -> None:
    manifest, mean = read_manifest(folder), folder.parent / "mean.npy"
    if data and manifest["kind"] in ARRAY_KINDS:
        read_splits(folder)
    mean_sha256 = sha256_of(mean) if mean.is_file() else None
    for run_id, record in records.items():
        if not record or record["dataset"]["name"] != name or record["run"]["framework"] == FRAMEWORK:
            continue
        for key in ("content_sha256", "samples"):
            if record["dataset"][key] != manifest[key]:
                raise DataError(f"{folder} is not the dataset that the run {run_id} was trained on: its {key} differs")
        if mean_sha256 != (record["dataset"]["mean_sha256"] or mean_sha256):
            raise DataError(f"{mean} is not the mean image that the run {run_id} was trained with: its SHA-256 differs")


def _check_made(verified: Verified, folder: Path, plan: Mapping) -> None:
    """Make tables, figures, report and paper kit again from the records, and compare each file."""
    if not plan["order"]:
        verified.facts.append("the last call was of a config without experiments, so no run was checked")
        return
    with TemporaryDirectory() as scratch:
        again = Path(scratch)
        for name in READ:
            if (folder / name).exists():
                (again / name).symlink_to((folder / name).resolve())
        _make_again(folder, again, plan)
        made = {path.relative_to(again): path for path in sorted(again.rglob("*")) if path.is_file()}
        compared = {
            name: verified.check(KINDS.get(name.parts[0], "report"), folder / name, _is_as_made, path, folder / name)
            for name, path in made.items()
            if name.name not in (PAPER_FILES, MANIFEST, "plan.json")
        }
        if others := list(compared.values()).count(False):
            verified.facts.append(f"not compared: {others} figures, drawn by another matplotlib or font")
        drawn_in = {name.parent for name in made}
        for path in own_paths(folder / "figures", "**/*.*"):
            if (relative := path.relative_to(folder)) in made:
                continue
            if relative.parent in drawn_in:
                verified.problems.append(f"{path} is not a figure of trainmark; move it elsewhere")
            elif path.is_file():
                verified.facts.append(f"{path} is of no run in plan.json, and in no report")


def _make_again(folder: Path, again: Path, plan: Mapping) -> None:
    results = make_tables_and_figures(plan, folder, again)
    # The report, and with it the paper, also shows the datasets. Commands have none.
    if (folder / "datasets").is_dir() or all(section.is_command for section in results.sections):
        make_report(results)
        if (folder / "paper" / PAPER_FILES).exists():
            make_kit(again, again / "paper")


def _is_as_made(again: Path, file: Path) -> bool:
    """Whether a file is what it was made again to. False if it is a figure that another matplotlib or font drew.

    Raises DataError if it differs otherwise.
    """
    content, expected = file.read_bytes(), again.read_bytes()
    if content == expected or (file.suffix == ".parquet" and is_same_parquet(file, again)):
        return True
    drawn_by = re.search(rb"matplotlib [\w.]+, [\w ]+", expected)
    if drawn_by and drawn_by.group() not in content:
        return False
    raise DataError(f"{file} is not what this clone makes of the records; delete it, and snakemake makes it again")


def _code_of_runs(records: Iterable[Mapping]) -> Iterator[str]:
    """A line for each experiment, its settings that are no defaults and its code, with the number of records."""
    counts: Counter[str] = Counter()
    defaults = default_settings()
    for record in records:
        run, provenance = record["run"], record["provenance"]
        own = {key: value for key, value in record["settings"].items() if value != defaults.get(key)}
        settings = ", ".join(f"{key}: {value}" for key, value in own.items()) or "default settings"
        code = (
            "the code of this clone"
            if (_code_of(run) or {"": ""}).items() <= provenance["code"].items()
            else "other code than this clone's"
        )
        commit = f"commit {provenance['git_commit'][:12]}" if provenance["git_commit"] else "outside git"
        changed = "" if provenance["git_clean"] in (True, None) else " with uncommitted changes"
        counts[f"experiment {run['experiment']} ({settings}), by {code}, {commit}{changed}"] += 1
    for line, count in sorted(counts.items()):
        yield f"{count} record{'s' if count > 1 else ''} of {line}"


def _code_of(run: Mapping) -> dict[str, str] | None:
    """The digests of the code with which this clone would make a run; None for an unknown recipe or framework."""
    is_known = run["recipe"] in RECIPES and run["framework"] in known_frameworks()
    return run_code(run["recipe"], Trainer.of(run)) if is_known or run["framework"] == FRAMEWORK else None
