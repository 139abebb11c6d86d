"""Checks that each file of a results folder is unchanged and fits the others, and tells which code and config made it.

The folder may come from somebody else: its files are read, and none of them is trusted.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainmark.config.load import default_settings
from trainmark.datasets.prepared import ARRAY_KINDS, read_manifest, read_splits
from trainmark.errors import DataError, TrainmarkError
from trainmark.files.checksums import sha256_of
from trainmark.files.system_files import own_paths
from trainmark.frameworks.registry import known_frameworks
from trainmark.paper.kit import FILES, differs, make_kit
from trainmark.parity.certificate import read_certificate
from trainmark.plan.code_digests import digests
from trainmark.plan.dependencies import command_code, training_code
from trainmark.plan.figures import FIGURE_FORMATS, known_figures, options_of_group
from trainmark.plan.matrix import expand_runs, trained_order
from trainmark.plan.plan_file import read_plan, refuse_other_folders
from trainmark.plan.run import RUN_FOLDER
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.records.evaluation import agrees, read_evaluation, read_evaluation_of_removed
from trainmark.records.peaks import read_peak
from trainmark.records.record import AGAIN
from trainmark.records.tuning import read_tuning
from trainmark.report.collected import Table, collected, differing
from trainmark.report.figures.data import Data, read_data
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.save import Drawn, drawn_alike, figure_differs, laid_out
from trainmark.report.page import render
from trainmark.tables.consistency import check_certificates, check_records, check_tunings
from trainmark.tables.missing import missing_lines
from trainmark.tables.results import read_results
from trainmark.tables.tables import read_records
from trainmark.trainer import Trainer
from trainmark.variant import drawn_groups

BROKEN = (OSError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, AssertionError)
"""Exceptions, besides TrainmarkError, that reading a tampered file may raise."""


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

    def check(self, kind: str, file: Path, check_file: Callable, *arguments: Any, counted: bool = True) -> Any:
        """Return what `check_file(*arguments)` returns. If it raises, note a problem and return None.

        counted: count this as one more file of its kind; False for a second check of the same file.
        """
        try:
            value, problem = check_file(*arguments), None
        except TrainmarkError as error:
            value, problem = None, str(error)
        except FileNotFoundError as error:
            value, problem = None, f"{error.filename or file} is missing; run snakemake again, which makes it"
        except BROKEN as error:
            value, problem = None, f"{file}: can't be read as a {kind} ({type(error).__name__}: {error})"
        self.counts[kind]["checked"] += counted
        if problem:
            self.counts[kind]["wrong"] += 1
            self.problems.append(problem)
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
        verified.problems += [
            f"{path} is neither a file nor a folder, nor a link to one; delete it" for path in special
        ]
        return verified
    refuse_other_folders(folder / "plan.json")
    plan = verified.check("plan", folder / "plan.json", _read_checked_plan, folder / "plan.json")
    records = _check_runs(verified, folder, plan)
    planned = plan["runs"] if plan else list(records)
    campaign = {run_id: records[run_id] for run_id in planned if run_id in records}
    _check_campaign(verified, folder, planned, campaign)
    for path in own_paths(folder / "datasets", "*/prepared"):
        verified.check("dataset", path, _check_dataset, path, campaign, data)
    certificates = _check_certificates(verified, folder, campaign)
    for path in own_paths(folder / "evaluations", "**/*.json"):
        verified.check("cross-evaluation", path, _check_evaluation, path, campaign)
    for path in own_paths(folder / "tuning", "**/*.json"):
        verified.check("timed tuning", path, _check_tuning, path, folder / "tuning", campaign)
    for path in own_paths(folder / "peaks", "*.json"):
        verified.check("peak", path, _check_peak, path, campaign)
    if others := len(records) - len(campaign):
        verified.facts.append(
            f"{others} record{'s are' if others > 1 else ' is'} not of a run in plan.json, and in no table"
        )
    if verified.problems:
        verified.facts.append(
            "tables, figures and report were not checked against the records, because of the problems above"
        )
    else:
        _check_tables(verified, folder, plan)
    if plan:
        verified.problems += missing_lines(plan)
    verified.facts += [*_code_of_runs(records.values()), *_code_of_certificates(certificates)]
    return verified


def _read_checked_plan(path: Path) -> dict:
    """Read the plan. Raises DataError if its runs are not those of its config: a run may have been left out."""
    plan = read_plan(path)
    runs = expand_runs(plan["config"])
    order = [run.id for run in trained_order(runs, plan["config"])]
    if [run.id for run in runs if run.id not in plan["missing"]] != plan["runs"] or order != plan["order"]:
        raise DataError(f"{path}: its runs are not the runs of its config; run snakemake, which rewrites it")
    return plan


# --- records ------------------------------------------------------------------------------------------------------


def _check_runs(verified: Verified, folder: Path, plan: dict | None) -> dict[str, dict]:
    """Check all records and their weights; return the readable records by run id, taken from the path of each."""
    records, removed = {}, 0
    for path in own_paths(folder / "runs", "**/record.json"):
        run_id = path.parent.relative_to(folder / "runs").as_posix()
        if run_id.split("/")[RUN_FOLDER.count("/") + 1 :][:1] == ["work"]:  # a file that a command wrote
            continue
        records_read = verified.check("record", path, read_records, folder / "runs", [run_id])
        if not records_read:
            continue
        (record,) = records_read.values()
        records[run_id] = record
        if plan:
            verified.check("record", path, _check_settings, path, record, plan, counted=False)
        if record["weights"]:
            file = path.with_name(record["weights"]["file"])
            removed += verified.check("weights", file, _check_weights, path, file, record) or 0
    if removed:
        verified.facts.append(f"weights of {removed} run{'s' if removed > 1 else ''} removed after their evaluation")
    return records


def _check_settings(path: Path, record: Mapping, plan: Mapping) -> None:
    if record["run"]["id"] not in plan["runs"]:
        return  # the record of an earlier config, which is in no table
    experiment = plan["config"]["experiments"][record["run"]["experiment"]]
    for key, value in record["settings"].items():
        if experiment.get(key) != value:
            raise DataError(
                f"{path} was trained with {key}: {value}, but plan.json has {key}: {experiment.get(key)}; {AGAIN}"
            )
    if record["run"]["framework"] == FRAMEWORK:
        name = record["run"]["recipe"]
        if experiment["commands"][name] != record["inputs"]["recipe"]:
            raise DataError(f"{path} is of another command than {name} in plan.json; {AGAIN}")


def _check_weights(record_file: Path, file: Path, record: Mapping) -> bool:
    """Whether a run's weights were removed after an evaluation that agrees with its record.

    Raises DataError if they are missing for another reason, or are not the record's.
    """
    if not file.is_file():
        entry = read_evaluation_of_removed(record_file, record)
        if entry and agrees(record, entry):
            return True
        raise DataError(
            f"{file}, the trained weights of a run, is missing; delete the run's record, and snakemake trains it again"
        )
    if sha256_of(file) != record["weights"]["sha256"]:
        raise DataError(
            f"{file} was changed, or belongs to another run: its SHA-256 is not the one in the record; delete the "
            "record, and snakemake trains the run again"
        )
    return False


def _check_campaign(verified: Verified, folder: Path, planned: Iterable[str], campaign: Mapping[str, dict]) -> None:
    """Check that the records of a campaign fit each other and that none is missing."""
    by_path = {str(folder / "runs" / run_id / "record.json"): record for run_id, record in campaign.items()}
    verified.check("record", folder, check_records, by_path, counted=False)
    for run_id in planned:
        path = folder / "runs" / run_id / "record.json"
        if not path.exists():
            verified.counts["record"]["wrong"] += 1
            verified.problems.append(f"{path}: missing record of a run in plan.json; run snakemake, which trains it")


# --- datasets, certificates, tables -------------------------------------------------------------------------------


def _check_dataset(folder: Path, records: Mapping[str, dict], data: bool) -> None:
    manifest, mean = read_manifest(folder), folder.parent / "mean.npy"
    if data and manifest["kind"] in ARRAY_KINDS:
        read_splits(folder)
    mean_sha256 = sha256_of(mean) if mean.is_file() else None
    for run_id, record in records.items():
        if record["dataset"]["name"] != folder.parent.name or record["run"]["framework"] == FRAMEWORK:
            continue
        for key in ("content_sha256", "samples"):
            if record["dataset"][key] != manifest[key]:
                raise DataError(f"{folder} is not the dataset that the run {run_id} was trained on: its {key} differs")
        if mean_sha256 != (record["inputs"]["mean_sha256"] or mean_sha256):
            raise DataError(f"{mean} is not the mean image that the run {run_id} was trained with: its SHA-256 differs")


def _check_certificates(verified: Verified, folder: Path, records: Mapping[str, dict]) -> list[dict]:
    paths = own_paths(folder / "certificates", "**/*.json")
    checked = [
        verified.check("certificate", path, _check_certificate, path, folder / "certificates", records)
        for path in paths
    ]
    return [certificate for certificate in checked if certificate]


def _check_certificate(path: Path, folder: Path, records: Mapping[str, dict]) -> dict:
    certificate = read_certificate(path)
    experiment, recipe, dataset = path.relative_to(folder).with_suffix("").parts
    check_certificates({(experiment, recipe, dataset): certificate}, records.values())
    return certificate


def _check_evaluation(path: Path, records: Mapping[str, dict]) -> None:
    for run_id, evaluated in read_evaluation(path)["runs"].items():
        weights = records[run_id]["weights"] if run_id in records else None
        if weights and weights["sha256"] != evaluated["weights_sha256"]:
            raise DataError(
                f"{path} was made from other weights than those of the run {run_id}; delete it and run snakemake again"
            )


def _check_tuning(path: Path, folder: Path, records: Mapping[str, dict]) -> None:
    check_tunings({path.relative_to(folder).as_posix(): read_tuning(path)}, records.values())


def _check_peak(path: Path, records: Mapping[str, dict]) -> None:
    kept, conditions = (read_peak(path)[key] for key in ("peak", "conditions"))
    for run_id, record in records.items():
        peak = record["peak"] or {}
        refers = (peak.get("measured"), record["provenance"]["host"]) == (kept["measured"], conditions["host"])
        if refers and not kept.items() <= peak.items():
            raise DataError(f"{path} is not the peak that the run {run_id} refers to; delete the run's record")


def _check_tables(verified: Verified, folder: Path, plan: dict) -> None:
    """Check that tables, figures and report are those that this clone makes from the records."""
    tables, page = folder / "tables", folder / "report" / "index.html"
    computed = verified.check("table", tables, collected, plan, folder, counted=False)
    if not computed:
        return
    for name, table in computed[0].items():
        verified.check("table", tables / name, _check_table, table, tables / name)
    if verified.problems:
        return
    figures = [path for path in own_paths(folder / "figures", "**/*.*") if not path.is_dir()]
    runs = (run_id.split("/") for run_id in plan["runs"])
    groups = drawn_groups((experiment, recipe, dataset) for experiment, recipe, dataset, *_ in runs)
    planned = {(folder / "figures").joinpath(*group) for group in groups}
    earlier = [path for path in figures if _is_figure(path) and path.parent not in planned]
    read = cache(partial(_figure_data, folder, plan))
    draw = lru_cache(1)(lambda group, name: laid_out(name, read(group)))  # its formats follow each other
    drawn = {path: verified.check("figure", path, _check_figure, path, draw) for path in figures if path not in earlier}
    if earlier:
        verified.facts.append(f"{len(earlier)} figures are of no run in plan.json, and in no report")
    if others := list(drawn.values()).count(False):
        verified.facts.append(f"not compared: {others} of {len(drawn)} figures, drawn by another matplotlib or font")
    if not (folder / "datasets").is_dir():
        verified.facts.append("the report was not compared: it also shows the datasets, and this folder has none")
    elif page.exists():
        verified.check("report", page, _check_report, page, folder / "summary.json", folder, plan)
    if (folder / "paper" / FILES).exists() and not verified.problems:
        _check_paper(verified, folder, plan)


def _check_paper(verified: Verified, folder: Path, plan: Mapping) -> None:
    """Check that the files of the paper kit are those that these results give, but for the PDF of the example."""
    with TemporaryDirectory() as scratch:
        make_kit(folder, plan, Path(scratch), compiles=False)
        for again in sorted(path for path in Path(scratch).rglob("*") if path.is_file() and path.name != FILES):
            file = folder / "paper" / again.relative_to(scratch)
            verified.check("file of the paper", file, _check_of_paper, file, again)


def _check_of_paper(file: Path, again: Path) -> None:
    if differs(file, again):
        raise DataError(f"{file} is not what this clone makes of the results; snakemake results/paper makes it again")


def _check_table(table: Table, file: Path) -> None:
    if differing(table, file):
        raise DataError(
            f"{file} is not what this clone computes from the records; delete it, and snakemake makes it again"
        )


def _check_figure(path: Path, draw: Callable[[Path, str], Drawn]) -> bool:
    """Whether the figure is as this clone draws it; False if it differs because another matplotlib or font drew it.

    draw: draws a figure, by its folder and name.

    Raises DataError if it differs although the same matplotlib and font drew it, or if it is no figure of trainmark.
    """
    if not _is_figure(path):
        raise DataError(f"{path} is not a figure of trainmark")
    drawn = draw(path.parent, path.name.partition(".")[0])
    differs = figure_differs(drawn, path)
    if differs and drawn_alike(drawn, path):
        raise DataError(f"{path} is not what this clone draws from the tables; delete it, and snakemake draws it again")
    return not differs


def _is_figure(path: Path) -> bool:
    name, _, kind = path.name.partition(".")
    return name in known_figures() and kind in FIGURE_FORMATS


def _figure_data(folder: Path, plan: Mapping, figures: Path) -> Data:
    """What the figures of a group are drawn from, with the options of the plan. figures: their folder."""
    experiment, recipe, dataset = group = figures.relative_to(folder / "figures").parts
    trainers = {
        trainer for *of_run, trainer, _, _ in (run_id.split("/") for run_id in plan["runs"]) if tuple(of_run) == group
    }
    chosen = plan["config"].get("figures", {})  # an older version's plan has none
    return read_data((experiment, recipe, dataset), folder, FigureOptions.of(options_of_group(chosen, trainers)))


def _check_report(page: Path, summary: Path, folder: Path, plan: Mapping) -> None:
    for file, text in zip((page, summary), render(read_results(folder), plan), strict=True):
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            raise DataError(
                f"{file} is not what this clone writes from records, figures and datasets; delete it, and "
                "snakemake writes it again"
            )


# --- code and config ----------------------------------------------------------------------------------------------


def _code_of_runs(records: Iterable[Mapping]) -> Iterator[str]:
    """A line for each experiment, its settings that are no defaults and its code, with the number of records."""
    counts: Counter[str] = Counter()
    defaults = default_settings()
    for record in records:
        run, provenance = record["run"], record["provenance"]
        own = {key: value for key, value in record["settings"].items() if value != defaults.get(key)}
        settings = ", ".join(f"{key}: {value}" for key, value in own.items()) or "default settings"
        starts = _training_code(run["recipe"], Trainer.of(run))
        code = f"{_code_in_words(starts, provenance['code'])}, {_commit(provenance)}"
        counts[f"experiment {run['experiment']} ({settings}), by {code}"] += 1
    for line, count in sorted(counts.items()):
        yield f"{count} record{'s' if count > 1 else ''} of {line}"


def _code_of_certificates(certificates: Iterable[Mapping]) -> Iterator[str]:
    counts = Counter(_code_in_words(("certify",), certificate["code"]) for certificate in certificates)
    for line, count in sorted(counts.items()):
        yield f"{count} certificate{'s' if count > 1 else ''} compared by {line}"


def _training_code(recipe: str, trainer: Trainer) -> tuple[str, ...] | None:
    """The modules from which this clone computes the code digest of a run; None for an unknown recipe or framework."""
    if trainer.framework == FRAMEWORK:
        return command_code()
    known = recipe in RECIPES and trainer.framework in known_frameworks()
    return training_code(RECIPES[recipe], trainer) if known else None


def _code_in_words(starts: tuple[str, ...] | None, code: Mapping) -> str:
    """Say whether recorded code is the code of this clone, and which modules differ.

    starts: the modules from which this clone's digest is computed.
    """
    if starts is None:
        return "code for a recipe or framework that this clone does not have"
    own = digests(*starts)
    others = sorted(name for name in {**own, **code["modules"]} if own.get(name) != code["modules"].get(name))
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return (
        f"code that differs from this clone's ({', '.join(others[:3])}{more})" if others else "the code of this clone"
    )


def _commit(provenance: Mapping) -> str:
    if not provenance["git_commit"]:
        return "outside git"
    return f"commit {provenance['git_commit'][:12]}{'' if provenance['git_clean'] else ' with uncommitted changes'}"
