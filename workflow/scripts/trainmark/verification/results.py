"""Is each file of a results folder what was written, and does it fit the others? By which code and config?

A folder may be somebody else's: what is in it is read, and nothing of it is trusted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainmark.datasets.prepared import ARRAY_KINDS, read_manifest, read_splits
from trainmark.errors import DataError, TrainmarkError
from trainmark.files.checksums import sha256_of
from trainmark.frameworks.registry import known_frameworks
from trainmark.parity.certificate import read_certificate
from trainmark.plan.code_digests import digests
from trainmark.plan.dependencies import training_code
from trainmark.plan.figures import FIGURE_FORMATS, known_figures
from trainmark.plan.matrix import expand_runs, trained_order
from trainmark.plan.plan_file import read_plan
from trainmark.recipes.catalogue import RECIPES
from trainmark.records.evaluation import agrees, read_evaluation, read_evaluation_of_removed
from trainmark.records.record import AGAIN
from trainmark.report.collected import Table, collected, differing
from trainmark.report.figures import drawn_by_this_matplotlib, figure_differs
from trainmark.report.page import render
from trainmark.tables.consistency import check_certificates, check_records
from trainmark.tables.results import read_results
from trainmark.tables.tables import read_records

BROKEN = (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, AssertionError)
"""What reading a file that somebody tampered with may raise besides a TrainmarkError."""


@dataclass
class Verified:
    """What was found. counts: files looked at, and wrong, by kind. problems, facts: a sentence each."""

    counts: dict[str, Counter] = field(default_factory=lambda: defaultdict(Counter))
    problems: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    def check(self, kind: str, file: Path, look: Callable, *arguments: Any, counted: bool = True) -> Any:
        """What a look at a file gives; None where it raises, which is a problem. counted: as one more file."""
        try:
            found, problem = look(*arguments), None
        except TrainmarkError as error:
            found, problem = None, str(error)
        except BROKEN as error:
            found, problem = None, f"{file}: can't be read as a {kind} ({type(error).__name__}: {error})"
        self.counts[kind]["looked at"] += counted
        if problem:
            self.counts[kind]["wrong"] += 1
            self.problems.append(problem)
        return found


def verify_results(folder: Path, data: bool) -> Verified:
    """Look at everything in a results folder; data: at prepared arrays, too. Raises DataError where it is none."""
    if not any((folder / name).is_dir() for name in ("runs", "certificates", "tables", "datasets")):
        raise DataError(f"{folder} is no results folder: it holds neither runs, certificates, tables nor datasets")
    found = Verified()
    if special := [path for path in folder.rglob("*") if not (path.is_file() or path.is_dir())]:  # never to be opened
        found.problems += [
            f"{path} is neither a file nor a folder, and leads to neither; delete it" for path in special
        ]
        return found
    plan = found.check("plan", folder / "plan.json", _plan, folder / "plan.json")
    records = _records(found, folder, plan)
    planned = plan["runs"] if plan else list(records)
    campaign = {run_id: records[run_id] for run_id in planned if run_id in records}
    _together(found, folder, planned, campaign)
    _datasets(found, folder, campaign, data)
    certificates = _certificates(found, folder, campaign)
    for path in sorted((folder / "evaluations").rglob("*.json")):
        found.check("cross-evaluation", path, _evaluation, path, campaign)
    if others := len(records) - len(campaign):
        found.facts.append(f"{others} record{'s are' if others > 1 else ' is'} of no run of plan.json, and in no table")
    if found.problems:
        found.facts.append("tables and report were not compared with the records, since something else is wrong")
    else:
        _tables(found, folder, plan)
    found.facts += [*_trained_by(records.values()), *_certified_by(certificates)]
    return found


def _plan(path: Path) -> dict:
    """The plan. DataError where its runs are not those of its config: one may have been left out."""
    plan = read_plan(path)
    runs = expand_runs(plan["config"])
    order = [run.id for run in trained_order(runs, plan["config"])]
    if [run.id for run in runs] != plan["runs"] or order != plan["order"]:
        raise DataError(
            f"{path}: its runs are not those that its config asks for; call snakemake, which writes it anew"
        )
    return plan


# --- records ------------------------------------------------------------------------------------------------------


def _records(found: Verified, folder: Path, plan: dict | None) -> dict[str, dict]:
    """The records that can be read, by the ids that their places say, and their weights."""
    records, removed = {}, 0
    for path in sorted((folder / "runs").rglob("record.json")):
        run_id = path.parent.relative_to(folder / "runs").as_posix()
        read = found.check("record", path, read_records, folder / "runs", [run_id])
        if not read:
            continue
        (record,) = read.values()
        records[run_id] = record
        if plan:
            found.check("record", path, _as_planned, path, record, plan, counted=False)
        if record["weights"]:
            file = path.with_name(record["weights"]["file"])
            removed += found.check("weights", file, _weights, path, file, record) or 0
    if removed:
        found.facts.append(f"weights of {removed} run{'s' if removed > 1 else ''} removed after their evaluation")
    return records


def _as_planned(path: Path, record: Mapping, plan: Mapping) -> None:
    if record["run"]["id"] not in plan["runs"]:
        return  # of an earlier config: it stands in no table
    asked = plan["config"]["experiments"][record["run"]["experiment"]]
    for key, value in record["settings"]["experiment"].items():
        if asked.get(key) != value:
            raise DataError(f"{path} was trained with {key}: {value}, and plan.json asks for {asked.get(key)}; {AGAIN}")


def _weights(record_file: Path, file: Path, record: Mapping) -> bool:
    """Whether a run's weights were removed after an evaluation that agrees with its record.

    DataError where they are missing otherwise, or are not the record's.
    """
    if not file.is_file():
        entry = read_evaluation_of_removed(record_file, record)
        if entry and agrees(record, entry):
            return True
        raise DataError(
            f"{file}, the trained weights of a run, is missing; delete its record, and snakemake trains it again"
        )
    if sha256_of(file) != record["weights"]["sha256"]:
        raise DataError(
            f"{file} was changed, or is of another run: its SHA-256 is not its record's; delete the record, and "
            "snakemake trains the run again"
        )
    return False


def _missing(path: Path) -> None:
    raise DataError(f"{path}: plan.json names this run, and it has no record; snakemake trains it")


def _together(found: Verified, folder: Path, planned: Iterable[str], campaign: Mapping[str, dict]) -> None:
    """Whether the records of a campaign fit each other, and none is missing."""
    there = {str(folder / "runs" / run_id / "record.json"): record for run_id, record in campaign.items()}
    found.check("record", folder, check_records, there, counted=False)
    for run_id in planned:
        path = folder / "runs" / run_id / "record.json"
        if not path.exists():
            found.check("record", path, _missing, path, counted=False)


# --- datasets, certificates, tables -------------------------------------------------------------------------------


def _datasets(found: Verified, folder: Path, records: Mapping[str, dict], data: bool) -> None:
    for path in sorted((folder / "datasets").glob("*/prepared")):
        found.check("dataset", path, _dataset, path, records, data)


def _dataset(folder: Path, records: Mapping[str, dict], data: bool) -> None:
    manifest, mean = read_manifest(folder), folder.parent / "mean.npy"
    if data and manifest["kind"] in ARRAY_KINDS:
        read_splits(folder)
    mean_sha256 = sha256_of(mean) if mean.is_file() else None
    for run_id, record in records.items():
        if record["dataset"]["name"] != folder.parent.name:
            continue
        for key in ("content_sha256", "samples"):
            if record["dataset"][key] != manifest[key]:
                raise DataError(f"{folder} is not the dataset that the run {run_id} was trained on: another {key}")
        if mean_sha256 != (record["inputs"]["mean_sha256"] or mean_sha256):
            raise DataError(f"{mean} is not the mean image that the run {run_id} was trained with: another SHA-256")


def _certificates(found: Verified, folder: Path, records: Mapping[str, dict]) -> list[dict]:
    paths = sorted((folder / "certificates").rglob("*.json"))
    read = [found.check("certificate", path, _certificate, path, folder / "certificates", records) for path in paths]
    return list(filter(None, read))


def _certificate(path: Path, folder: Path, records: Mapping[str, dict]) -> dict:
    certificate = read_certificate(path)
    experiment, recipe, dataset = path.relative_to(folder).with_suffix("").parts
    check_certificates({(experiment, recipe, dataset): certificate}, records.values())
    return certificate


def _evaluation(path: Path, records: Mapping[str, dict]) -> None:
    for run_id, evaluated in read_evaluation(path)["runs"].items():
        weights = records[run_id]["weights"] if run_id in records else None
        if weights and weights["sha256"] != evaluated["weights_sha256"]:
            raise DataError(f"{path} evaluates other weights than the run {run_id} has; delete it, and call snakemake")


def _tables(found: Verified, folder: Path, plan: dict) -> None:
    """Whether tables, figures and report are what the records give."""
    tables, page = folder / "tables", folder / "report" / "index.html"
    sources = (plan, folder / "runs", folder / "certificates", folder / "evaluations")
    made = found.check("table", tables, collected, *sources, counted=False)
    if not made:
        return
    for name, table in made[0].items():
        found.check("table", tables / name, _table, table, tables / name)
    if found.problems:
        return
    drawn = {path: found.check("figure", path, _figure, path, folder) for path in (folder / "figures").rglob("*.*")}
    if others := list(drawn.values()).count(False):
        found.facts.append(f"{others} of {len(drawn)} figures: drawn by another version of matplotlib, not compared")
    if not (folder / "datasets").is_dir():
        found.facts.append("the report was not compared, since it also shows the datasets, which are not here")
    elif page.exists():
        found.check("report", page, _page, page, folder, plan["config"])


def _table(table: Table, file: Path) -> None:
    if differing(table, file):
        raise DataError(
            f"{file} is not what the records give by the code of this clone; delete it, and snakemake makes it again"
        )


def _figure(path: Path, folder: Path) -> bool:
    """Whether this matplotlib draws the figure so; DataError where it is not what the tables give."""
    *group, name = path.relative_to(folder / "figures").with_suffix("").parts
    if name not in known_figures() or path.suffix[1:] not in FIGURE_FORMATS:
        raise DataError(f"{path} is none of trainmark's figures")
    differs = figure_differs(name, group, folder / "tables", path)
    if differs and drawn_by_this_matplotlib(path):
        raise DataError(
            f"{path} is not what the tables give by the code of this clone; delete it, and snakemake draws it again"
        )
    return not differs


def _page(page: Path, folder: Path, config: Mapping) -> None:
    if page.read_text(encoding="utf-8") != render(read_results(folder), config):
        raise DataError(
            f"{page} is not what records, figures and datasets give by the code of this clone; delete it, and "
            "snakemake writes it again"
        )


# --- by which code and config -------------------------------------------------------------------------------------


def _trained_by(records: Iterable[Mapping]) -> Iterator[str]:
    """A line for each experiment, settings and state of the code: of how many records."""
    counts: Counter[str] = Counter()
    for record in records:
        run, provenance = record["run"], record["provenance"]
        settings = ", ".join(f"{key}: {value}" for key, value in record["settings"]["experiment"].items())
        starts = _code_of(run["recipe"], run["framework"])
        code = f"{_whose(starts, provenance['code'])}, {_commit(provenance)}"
        counts[f"experiment {run['experiment']} ({settings}), by {code}"] += 1
    for line, count in sorted(counts.items()):
        yield f"{count} record{'s' if count > 1 else ''} of {line}"


def _certified_by(certificates: Iterable[Mapping]) -> Iterator[str]:
    counts = Counter(_whose(("certify",), found["code"]) for found in certificates)
    for line, count in sorted(counts.items()):
        yield f"{count} certificate{'s' if count > 1 else ''} compared by {line}"


def _code_of(recipe: str, framework: str) -> tuple[str, ...] | None:
    known = recipe in RECIPES and framework in known_frameworks()
    return training_code(RECIPES[recipe], framework) if known else None


def _whose(starts: tuple[str, ...] | None, code: Mapping) -> str:
    """Whether code is that of this clone, and which modules are not."""
    if starts is None:
        return "code for a recipe or framework that this clone has not"
    own = digests(*starts)
    others = sorted(name for name in {**own, **code["modules"]} if own.get(name) != code["modules"].get(name))
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"other code than this clone's ({', '.join(others[:3])}{more})" if others else "the code of this clone"


def _commit(provenance: Mapping) -> str:
    if not provenance["git_commit"]:
        return "outside git"
    return f"commit {provenance['git_commit'][:12]}{'' if provenance['git_clean'] else ' with uncommitted changes'}"
