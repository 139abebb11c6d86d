"""Merges the results folders of several machines or users into one campaign, which keeps them apart.

The experiment E of the folder with the label L becomes the experiment E-L. Pairs, medians, verdicts, certificates and
sections are of one experiment, so those of the merged campaign are those of the folders.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from trainmark.campaigns.folders import Campaign, Place, place_of, read_campaigns
from trainmark.errors import DataError, TrainmarkError, in_one_sentence
from trainmark.files.seal import is_sealed, sealed
from trainmark.files.whole import written_whole
from trainmark.plan.keys import key_of_record
from trainmark.plan.matrix import expand_runs, trained_order
from trainmark.plan.plan_file import write_plan
from trainmark.plan.products import MANIFEST, RECORD
from trainmark.plan.run import Run
from trainmark.recipes.own import NAME, NAME_ALLOWED
from trainmark.report.remade import make_report, make_tables_and_figures
from trainmark.variant import SEPARATOR, split_name

OF_DATASETS = (f"prepared/{MANIFEST}", "mean.npy", "mean.png", "sources.json")
"""What is copied of a dataset: what the report shows, and not the data."""

ENTRIES, PATHS = ("commands", "jobs", "certificates", "evaluations"), ("file", "folder", "records", "files")
"""The parts of a plan with an entry for each command, trainer or group, and the keys of an entry that hold paths."""

RENAME = "give one another name in its config, and train there again"


def merge(folders: Sequence[tuple[str, Path]], out: Path) -> str:
    """Merge results folders, or archives of them, into a new results folder, and return a line on it.

    folders: (label, folder).

    Raises DataError if one of them is no whole campaign, if they can't be one campaign, or if `out` is not empty.
    """
    out, names = out.resolve(), ", ".join(str(path) for _, path in folders)
    if out.exists() and not (out.is_dir() and next(out.iterdir(), None) is None):
        raise DataError(f"{out} is there and not empty; allowed: a new or an empty folder, because nothing is replaced")
    if any(out.is_relative_to(path.resolve()) for _, path in folders):
        raise DataError(f"{out} lies in a folder that is merged, and these are only read; allowed: a folder elsewhere")
    campaigns = {one.name: one for one in read_campaigns([path for _, path in folders])}
    sources = [_Source(label, campaigns[str(path)], place_of(path)) for label, path in folders]
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{out.name}-", dir=out.parent) as scratch:
        folder = Path(scratch, out.name)
        try:
            results = make_tables_and_figures(_Merged(folder).plan(sources), folder, folder)
            make_report(results)
        except (TrainmarkError, LookupError, TypeError, ValueError, AttributeError, FileNotFoundError) as error:
            what = in_one_sentence(error).replace(f"{folder}/", "")
            raise DataError(f"{names} can't be one campaign: {what}") from error
        folder.replace(out)
    return f"{out}: {len(results.runs):,} runs of {names}; report: {out / 'report' / 'index.html'}"


class _Source(NamedTuple):
    """A folder that is merged, and how what has the name of an experiment is called in the merged campaign."""

    label: str
    campaign: Campaign
    place: Place

    def of(self, path: str) -> str:
        """The new form of an experiment's name, or of an id that it begins: "optimizers-laptop.adam/..."."""
        name, slash, rest = path.partition("/")
        base, variant = split_name(name)
        return f"{base}-{self.label}{SEPARATOR if variant else ''}{variant}{slash}{rest}"

    def file(self, path: str) -> str:
        """The new path of a file of an experiment. Those of datasets stay where they are."""
        kind, _, rest = path.partition("/")
        return path if kind == "datasets" else f"{kind}/{self.of(rest)}"

    def read(self, file: str) -> dict[str, Any]:
        """A record, certificate, cross-evaluation or timed tuning with its new names and digest."""
        document: dict[str, Any] = json.loads((self.place / file).read_bytes())
        if not is_sealed(document):
            raise DataError(f"{self.place / file} was changed after it was written, and verify.py says more")
        for named in (document, document.get("run", {})):
            named |= {key: self.of(named[key]) for key in ("id", "experiment") if key in named}
        if "runs" in document:
            document["runs"] = {self.of(run): one for run, one in document["runs"].items()}
        return sealed(document)

    def config(self) -> dict[str, Any]:
        """Its config with new names. Descriptions and claims say where they are from.

        A claim that names no experiment is on that of its folder, if there is only one.
        """
        config, runs, experiments, claims = self.campaign.plan["config"], self.campaign.runs, {}, []
        for name, one in config["experiments"].items():
            own = runs[runs["experiment"] == name]
            devices = own["gpu"].where(own["device"] == "gpu", own["cpu_model"]).fillna("unknown")
            machines = ", ".join((own["host"] + " (" + devices + ")").unique()) or "no machine"
            origin = f"{self.label}: {Path(self.campaign.name).name}, trained on {machines}."
            experiments[self.of(name)] = {**one, "description": f"{one['description']} {origin}".strip()}
        bases = {split_name(name)[0] for name in config["experiments"]}
        for one in config["claims"]:
            where = (dict.fromkeys(["experiment"], *bases) if len(bases) == 1 else {}) | one.get("where", {})
            new = {"experiment": self.of(where["experiment"])} if "experiment" in where else {}
            claims.append({**one, "says": f"{self.label}: {one['says']}"} | ({"where": where | new} if where else {}))
        return {**config, "experiments": experiments, "claims": claims}


class _Merged:
    """A merged results folder while it is made. folder: where."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[Any, str]] = {}
        self._recipes: dict[str, dict] = {}

    def plan(self, sources: Sequence[_Source]) -> dict[str, Any]:
        """Copy what tables and report are made from, write the plan and return it."""
        parts, configs = [self._copied(one) for one in sources], [one.config() for one in sources]
        config = configs[0] | {key: _joined(configs, key) for key in ("experiments", "datasets")}
        config["prepare"] = [*dict.fromkeys(name for one in configs for name in one["prepare"])]
        config["claims"] = [claim for one in configs for claim in one["claims"]]
        plan: dict[str, Any] = {
            "config": config,
            "any_code": any(one.campaign.plan["any_code"] for one in sources),
            "order": [run.id for run in trained_order(expand_runs(config), config)],
            "repeated": [],
            "recipes": [*self._recipes.values()],
            **{part: _joined(parts, part) for part in parts[0]},
        }
        write_plan(self._folder / "plan.json", plan)
        return plan

    def _copied(self, source: _Source) -> dict[str, dict]:
        """Copy the files of a folder; return the parts of its plan that hold names and paths, with the new ones."""
        plan = source.campaign.plan
        self._check(source)
        runs = {file: self._copy_run(file, source) for file in plan["records"].values()}
        files = [one["file"] for part in ("certificates", "evaluations") for one in plan[part].values()]
        files += [file for job in plan["jobs"].values() for file in job["files"].get("tuning", ())]
        files += [f"{one['folder']}/{file}" for one in plan["datasets"].values() for file in OF_DATASETS]
        for file in files:
            self._copy(file, source, source.file(file))

        def moved(value: Any) -> Any:
            if isinstance(value, str):
                return runs.get(value) or source.file(value)
            return [*map(moved, value)] if isinstance(value, list) else {key: moved(one) for key, one in value.items()}

        def entry(one: Mapping) -> dict:
            return {key: moved(value) if key in PATHS else value for key, value in one.items()}

        new = {part: {source.of(name): entry(one) for name, one in plan[part].items()} for part in ENTRIES}
        missing = {source.of(run): why for run, why in plan["missing"].items()}
        records = {source.of(run): runs[file] for run, file in plan["records"].items()}
        return {**new, "missing": missing, "records": records, "datasets": plan["datasets"]}

    def _check(self, source: _Source) -> None:
        """Raise DataError if the names, prices or own recipes of a folder do not go with those of the others."""
        config = source.campaign.plan["config"]
        for new in {source.of(split_name(name)[0]) for name in config["experiments"]}:
            if not re.fullmatch(NAME, new):
                raise DataError(f"{new} is no name of an experiment; allowed: {NAME_ALLOWED}; choose another label")
            self._agree(f"the experiment {new}", source.campaign.name, source, "choose other labels")
        self._agree("the prices", config["prices"], source, "set the same in both configs, and call snakemake there")
        for recipe in source.campaign.plan["recipes"]:
            name, graphs = recipe["values"]["name"], recipe["graphs"]
            for shape, graph in graphs.items():  # the folders may have it for different inputs
                self._agree(f"the network {name} for {shape}", graph, source, RENAME)
            self._agree(f"the recipe {name}", {**recipe["values"], "source": None}, source, RENAME)
            self._recipes.setdefault(name, {**recipe, "graphs": {}})["graphs"] |= graphs

    def _agree(self, what: str, value: Any, source: _Source, advice: str) -> None:
        """Raise DataError if another folder has another value of what a campaign has once."""
        first, other = self._known.setdefault(what, (value, source.campaign.name))
        if first != value:
            raise DataError(f"{other} and {source.campaign.name} differ in {what}; {advice}")

    def _copy_run(self, file: str, source: _Source) -> str:
        """Copy a record and the files beside it; return its new path, with the key that follows from its new name."""
        record, folder = source.read(file), file.rpartition("/")[0]
        run = Run.of(record["run"])
        self._agree(f"the dataset {run.dataset}", record["dataset"], source, RENAME)
        path = Path(RECORD.format(**vars(run), key=key_of_record(record)))
        for one in (source.place / folder).iterdir():
            self._copy(f"{folder}/{one.name}", source, str(path.with_name(one.name)))
        return str(path)

    def _copy(self, file: str, source: _Source, new: str) -> None:
        """Copy a file, if it is there. Raises DataError for a path that leads out, as a plan of others may have."""
        if ".." in (parts := Path(new).parts) or parts[0] == "/":
            raise DataError(f"{source.campaign.name} has {new} in its plan, which is no path in a results folder")
        if (given := source.place / file).is_file():
            is_ours = new.endswith(".json") and parts[0] != "datasets"
            data = f"{json.dumps(source.read(file), indent=1)}\n".encode() if is_ours else given.read_bytes()
            with written_whole(self._folder / new) as part:
                part.write_bytes(data)


def _joined(parts: Sequence[Mapping], key: str) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part[key].items()}
