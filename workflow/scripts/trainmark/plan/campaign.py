"""The campaign of a workflow: its runs, and what rules look up for a job by its wildcards. All of it is in the plan."""

import json
import shlex
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase as fnmatch
from functools import cached_property
from typing import Any

from trainmark.config.load import keys_that_decide
from trainmark.plan.code_digests import digest
from trainmark.plan.figures import FIGURE_FORMATS, figure_arguments, known_figures, options_of_group
from trainmark.plan.keys import short_digest
from trainmark.plan.matrix import expand_runs
from trainmark.plan.products import (
    FIGURES,
    GPU_CHECK_FILE,
    REPORT_FILES,
    RESULTS,
    TABLE_FILES,
    TABLES,
    TRACE,
    mean_in,
    packed_in,
    prepared_in,
)
from trainmark.plan.run import RUN_FOLDER, Run, of_trainer, trainer_in
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.weights_file import initial_weights_file
from trainmark.trainer import DEVICES, Trainer
from trainmark.variant import drawn_groups

SHOWN_OF_RECIPES = ("input_shape", "published_parameters", "published_classes", "source")
"""Attributes of a recipe that the report prints."""


Wildcards = Any
"""Snakemake's wildcards: the variable parts of an output's path, as attributes."""


def trainer_of(wildcards: Wildcards) -> Trainer:
    """The trainer of a job that has one."""
    trainer = trainer_in(wildcards)
    assert trainer is not None
    return trainer


class _Of(dict):
    """Wildcards of a job with a trainer."""

    __getattr__ = dict.__getitem__


class Campaign:
    """All runs of a plan, and the files that are made from them. Methods that take wildcards are pure.

    runs: those that have, or will have, a record; without the runs that are missing from the tables.
    only: patterns of run ids; the call trains runs that match one, and makes no tables. Empty: all.
    """

    def __init__(self, plan: Mapping, only: str | Iterable[str] = ()) -> None:
        self.plan, self.config = plan, plan["config"]
        self.missing: dict[str, str] = plan["missing"]
        self.order: list[str] = plan["order"]
        self.only = [only] if isinstance(only, str) else list(only)
        runs = expand_runs(self.config)
        self.runs: list[Run] = [run for run in runs if run.id not in self.missing]
        self.trainers_of_runs = list(dict.fromkeys(run.trainer for run in runs))
        self.frameworks = list(
            dict.fromkeys(one.framework for one in self.trainers_of_runs if one.framework != FRAMEWORK)
        )
        self._turns = {run_id: turn for turn, run_id in enumerate(reversed(self.order), start=1)}

    # --- files ------------------------------------------------------------------------------------------------------

    @cached_property
    def records(self) -> list[str]:
        """The record of each run, as a path."""
        return self._paths(self.plan["records"].values())

    @cached_property
    def trainings(self) -> list[Wildcards]:
        """Wildcards of each trainer of each group, without commands."""
        names = ("experiment", "recipe", "dataset", "trainer")
        jobs = (dict(zip(names, of.split("/"), strict=True)) for of in self.plan["jobs"])
        return [_Of(of) for of in jobs if Trainer.parse(of["trainer"]).framework != FRAMEWORK]

    @property
    def reports(self) -> bool:
        """Whether the call makes tables and report: not if it is to train some runs only."""
        return bool(self.runs) and not self.only

    @property
    def chosen(self) -> list[str]:
        """The records of the runs that match a pattern of `only`; all without one."""
        records = zip(self.plan["records"], self.records, strict=True)
        patterns = self.only or [""]
        return [record for run_id, record in records if any(fnmatch(run_id, f"{one}*") for one in patterns)]

    @property
    def certificates(self) -> list[str]:
        """The certificate of each group with at least two trainers."""
        return self._paths(one["file"] for one in self.plan["certificates"].values())

    @property
    def evaluations(self) -> list[str]:
        """The cross-evaluations: one per trainer, in groups that write weights and have at least two trainers."""
        return self._paths(one["file"] for one in self.plan["evaluations"].values())

    @cached_property
    def evaluated_records(self) -> dict[str, list[str]]:
        """The records that each cross-evaluation is of, by its file."""
        return {f"{RESULTS}/{one['file']}": self._paths(one["records"]) for one in self.plan["evaluations"].values()}

    @property
    def tunings(self) -> list[str]:
        """The timed tunings: one per tuned trainer of a group."""
        return self._paths(file for one in self.plan["jobs"].values() for file in one["files"].get("tuning", ()))

    def _paths(self, files: Iterable[str]) -> list[str]:
        return [f"{RESULTS}/{file}" for file in files]

    @property
    def figures(self) -> list[str]:
        """All figures of each experiment, recipe and dataset, in all formats."""
        groups = drawn_groups((run.experiment, run.recipe, run.dataset) for run in self.runs)
        return [
            f"{RESULTS}/{FIGURES.format(experiment=experiment, recipe=recipe, dataset=dataset)}/{figure}.{kind}"
            for experiment, recipe, dataset in sorted(groups)
            for figure in known_figures()
            for kind in FIGURE_FORMATS
        ]

    @property
    def prepared(self) -> list[str]:
        """The files of the datasets listed under `prepare`."""
        return [file for name in self.config["prepare"] for file in self._files_of(name)]

    @property
    def shown_of_datasets(self) -> list[str]:
        """The files of all datasets of the campaign, which the report describes."""
        trained_on = (run.dataset for run in self.runs if run.trainer.framework != FRAMEWORK)
        return [file for name in dict.fromkeys([*trained_on, *self.config["prepare"]]) for file in self._files_of(name)]

    def _files_of(self, name: str) -> list[str]:
        dataset = self.plan["datasets"][name]
        folder = f"{RESULTS}/{dataset['folder']}"
        mean = [] if dataset["kind"] == "tokens" else mean_in(folder)
        return [prepared_in(folder), *mean, *(packed_in(folder) if dataset["packed"] else [])]

    @cached_property
    def tables_made(self) -> str:
        """Empty file that is there once the tables are made of this campaign's records by this clone's code."""
        made = [self.order, self.plan["records"], self.missing, self.certificates, self.evaluations, self.tunings]
        return f"{TABLES}/made_{short_digest([*made, self.reported, digest('collect')])}"

    @cached_property
    def report_made(self) -> str:
        """Empty file that is there once figures and report, too, are made of these tables by this clone's code."""
        code = digest("plot"), digest("report")
        made = [self.tables_made, self.config["figures"], self.shown_of_datasets, self.described_recipes(), code]
        return f"{RESULTS}/report/made_{short_digest(made)}"

    @property
    def all_files(self) -> list[str]:
        """All results, tables and figures, and the report of them."""
        results = [*self.records, *self.certificates, *self.evaluations, *self.tunings]
        return [*results, *TABLE_FILES, self.tables_made, *self.figures, *REPORT_FILES, self.report_made]

    @property
    def reported(self) -> str:
        """The keys of the config that affect only tables and report, as JSON."""
        keys = keys_that_decide(["report"])
        experiments = self.config["experiments"].items()
        by_experiment = {name: {key: experiment[key] for key in keys} for name, experiment in experiments}
        return json.dumps([self.config["prices"], self.config["claims"], by_experiment], sort_keys=True)

    # --- what a job reads, by wildcards -----------------------------------------------------------------------------

    def job(self, wildcards: Wildcards) -> dict[str, Any]:
        """The entry of the plan of a job with a trainer."""
        job: dict[str, Any] = self.plan["jobs"][of_trainer(wildcards)]
        return job

    def reads(self, name: str, wildcards: Wildcards) -> list[str]:
        """What a job with a trainer reads under a name.

        prepared, mean, packed: of its dataset; no mean image of texts, and packed images if its loader asks for them.
        tuning: the timed tuning of a tuned loop. sources: the list of the files that are fetched for a command.
        weights: the file that it starts from. gpu_check: the check of its framework, which runs on the GPU wait for.
        """
        job, trainer = self.job(wildcards), trainer_of(wildcards)
        if name == "weights":
            return [str(file)] if (file := initial_weights_file(job["settings"])) else []
        if name == "gpu_check":
            return [GPU_CHECK_FILE.format_map(trainer._asdict())] if trainer.device == "gpu" else []
        return self._paths(job["files"][name])

    def traces(self, wildcards: Wildcards) -> list[str]:
        """The traces of all trainers of a certificate."""
        trainers = self.plan["certificates"][_group_of(wildcards)]["trainers"]
        names = {key: getattr(wildcards, key) for key in ("experiment", "recipe", "dataset", "key")}
        return self._paths(TRACE.format(**names, trainer=trainer) for trainer in trainers)

    def evaluated(self, wildcards: Wildcards) -> list[str]:
        """The records of the runs that a trainer evaluates: those of the previous trainer in its group."""
        return self._paths(self.plan["evaluations"][of_trainer(wildcards)]["records"])

    def certificate(self, wildcards: Wildcards) -> list[str]:
        """The certificate of a group; an empty list if it has one trainer."""
        found = self.plan["certificates"].get(_group_of(wildcards))
        return self._paths([found["file"]]) if found else []

    def base(self, wildcards: Wildcards) -> list[str]:
        """The prepared dataset from which a dataset takes its classes; an empty list for others."""
        of = self.plan["datasets"][wildcards.dataset]["of"]
        return self._paths([prepared_in(of)]) if of else []

    def packed_for_mean(self, wildcards: Wildcards) -> list[str]:
        """The packed training images of a dataset; an empty list if its entry asks for none."""
        dataset = self.plan["datasets"][wildcards.dataset]
        return self._paths(packed_in(dataset["folder"])[:1]) if dataset["packed"] else []

    # --- other values, by wildcards ---------------------------------------------------------------------------------

    def command(self, wildcards: Wildcards) -> dict[str, Any]:
        """The command of a run."""
        command: dict[str, Any] = self.job(wildcards)["inputs"]["recipe"]
        return command

    def figure_options(self, wildcards: Wildcards) -> str:
        """The options of a group's figures on the command line of plot.py, quoted for the shell."""
        group = (wildcards.experiment, wildcards.recipe, wildcards.dataset)
        runs = [run for run in self.runs if (run.experiment, run.recipe, run.dataset) == group]
        options = options_of_group(self.config["figures"], {str(run.trainer) for run in runs})
        return shlex.join(figure_arguments(options))

    def described_recipes(self) -> str:
        """The values of the recipes that the report prints, as JSON."""
        names = sorted({run.recipe for run in self.runs if run.trainer.framework != FRAMEWORK})
        return json.dumps({name: [getattr(RECIPES[name], key) for key in SHOWN_OF_RECIPES] for name in names})

    def turn(self, wildcards: Wildcards) -> int:
        """The priority of a run. Earlier runs in the order have a higher priority."""
        return self._turns[RUN_FOLDER.format_map(wildcards)]

    def group(self, wildcards: Wildcards, size: int) -> str:
        """The name of the group of a run: `size` runs on the same device that follow each other in the order."""
        return f"runs-{trainer_of(wildcards).device}-{self._place_on_device[RUN_FOLDER.format_map(wildcards)] // size}"

    @cached_property
    def _place_on_device(self) -> dict[str, int]:
        by_device: dict[str, list[str]] = {device: [] for device in DEVICES}
        devices = {run.id: run.trainer.device for run in expand_runs(self.config)}
        for run_id in self.order:
            by_device[devices[run_id]].append(run_id)
        return {run_id: place for ids in by_device.values() for place, run_id in enumerate(ids)}

    @property
    def before_runs(self) -> int:
        """A priority higher than that of every run."""
        return len(self.order) + 1


def _group_of(wildcards: Wildcards) -> str:
    return f"{wildcards.experiment}/{wildcards.recipe}/{wildcards.dataset}"


def option(name: str, files: str | Iterable[str] | None) -> str:
    """Return a command line option with its file, quoted for the shell, or an empty text without a file."""
    return f"{name} {shlex.quote(str(files))}" if files else ""
