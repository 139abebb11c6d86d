"""The campaign of a workflow: its runs, their order and files, and the values that rules look up by wildcards."""

import json
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

from trainmark.config.load import keys_that_decide
from trainmark.plan.code_digests import digest, preparing_digest, run_code
from trainmark.plan.figures import FIGURE_FORMATS, figure_arguments, known_figures, options_of_group
from trainmark.plan.matrix import certified_groups, expand_runs, trained_order
from trainmark.plan.products import (
    CERTIFICATES,
    EVALUATIONS,
    FIGURE_FOLDER,
    RECORD_FILE,
    TRACE_FILE,
    TUNING_FILE,
    TUNINGS,
    evaluation_files,
    is_timed,
    mean_array,
    packed_folder,
    packed_to_train,
    prepared_folder,
    products,
    tuning_files,
)
from trainmark.plan.run import CERTIFICATE_FILE, RUN_FOLDER, Run, trainer_in, trainer_part
from trainmark.plan.staleness import (
    certificate_changes,
    record_changes,
    sha256_of_input,
    tables_changes,
    tuning_changes,
)
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FRAMEWORK
from trainmark.recipes.recipe import certified_recipe_values, recipe_values
from trainmark.recipes.weights_file import initial_weights_file
from trainmark.trainer import DEVICES, STOCK, Trainer
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


BY_WILDCARDS = Signature([Parameter("wildcards", Parameter.POSITIONAL_ONLY)])


def by_wildcards(method: Callable[[Wildcards], Any]) -> Callable[[Wildcards], Any]:
    """Return a method with a stored signature, which Snakemake would work out anew for each of thousands of jobs."""

    def look_up(wildcards: Wildcards) -> Any:
        return method(wildcards)

    look_up.__signature__ = BY_WILDCARDS  # type: ignore[attr-defined]
    return look_up


def once_per_trainer(method: Callable[[Any, Wildcards], Any]) -> Callable[[Any, Wildcards], Any]:
    """Make a method of wildcards compute its value once for all runs of a trainer. There may be thousands."""

    @wraps(method)
    def look_up(self: Any, wildcards: Wildcards) -> Any:
        key = (method.__name__, trainer_part(wildcards))
        if key not in self._computed:
            self._computed[key] = method(self, wildcards)
        return self._computed[key]

    return look_up


class Campaign:
    """All runs of a config, and the files that are made from them.

    Methods that take wildcards return what a job depends on, in the form in which its rule passes it to Snakemake.

    config: the checked config, with defaults and with resolved devices (`matrix.with_devices`).
    catalogue: the dataset entries.
    missing: the reason why a run has no record, by run id. Such a run is in `order` but not in `runs`.
    repeated: ids of the runs that this call trains again although their records are up to date (reruns.py).
    trainers_of_runs: the trainers of all runs, those of commands and of runs without a record among them.
    """

    def __init__(self, config: Mapping, catalogue: Mapping, missing: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.catalogue = catalogue
        self.missing = dict(missing or {})
        runs = expand_runs(config)
        self.runs: list[Run] = [run for run in runs if run.id not in self.missing]
        trained = trained_order(runs, config)
        self.order: list[str] = [run.id for run in trained]
        self._place_on_device = {
            run.id: place
            for device in DEVICES
            for place, run in enumerate(run for run in trained if run.trainer.device == device)
        }
        self._turns = {run_id: turn for turn, run_id in enumerate(reversed(self.order), start=1)}
        self.trainers_of_runs = list(dict.fromkeys(run.trainer for run in runs))
        self._trainers = certified_groups(self.runs)
        self._planned_trainers = certified_groups(runs)
        self._trainings = [run for run in self.runs if run.trainer.framework != FRAMEWORK]
        self._computed: dict[tuple, Any] = {}
        self.repeated: set[str] = set()

    # --- files ------------------------------------------------------------------------------------------------------

    @property
    def records(self) -> list[str]:
        """The record of each run, as a path."""
        return [RECORD_FILE.format_map(vars(run)) for run in self.runs]

    @property
    def frameworks(self) -> list[str]:
        """The frameworks of all trainings, without duplicates."""
        return list(dict.fromkeys(run.trainer.framework for run in self._trainings))

    @property
    def certificates(self) -> list[str]:
        """The certificate of each group with at least two trainers."""
        return [
            f"{CERTIFICATES}/{CERTIFICATE_FILE}".format(experiment=experiment, recipe=recipe, dataset=dataset)
            for experiment, recipe, dataset in self._trainers
        ]

    @property
    def evaluations(self) -> list[str]:
        """The cross-evaluations: one per trainer, in groups that write weights and have at least two trainers."""
        return [f"{EVALUATIONS}/{file}" for file in evaluation_files(self.config, self._trainers)]

    @property
    def tunings(self) -> list[str]:
        """The timed tunings: one per tuned trainer of a group."""
        return [f"{TUNINGS}/{file}" for file in tuning_files(self.config, self.runs)]

    @property
    def figures(self) -> list[str]:
        """All figures of each experiment, recipe and dataset, in all formats."""
        groups = drawn_groups((run.experiment, run.recipe, run.dataset) for run in self.runs)
        return [
            f"{FIGURE_FOLDER.format(experiment=experiment, recipe=recipe, dataset=dataset)}/{figure}.{kind}"
            for experiment, recipe, dataset in sorted(groups)
            for figure in known_figures()
            for kind in FIGURE_FORMATS
        ]

    @property
    def products(self) -> list[str]:
        """The files that are made from each dataset that is trained on or listed under `prepare`."""
        return products(sorted({run.dataset for run in self._trainings} | set(self.config["prepare"])), self.catalogue)

    @property
    def reported(self) -> str:
        """The keys of the config that affect only tables and report, as JSON."""
        keys = keys_that_decide(["report"])
        experiments = self.config["experiments"].items()
        by_experiment = {name: {key: experiment[key] for key in keys} for name, experiment in experiments}
        return json.dumps([self.config["prices"], self.config["claims"], by_experiment], sort_keys=True)

    # --- what a job depends on, by wildcards ------------------------------------------------------------------------

    def settings(self, wildcards: Wildcards) -> str:
        """The settings that affect a run, as JSON."""
        of_loop = () if trainer_of(wildcards).loop == STOCK else ("tuned",)
        return self._settings(wildcards, ("training", "record", *of_loop))

    def certified_settings(self, wildcards: Wildcards) -> str:
        """The settings that affect a certificate, as JSON."""
        return self._settings(wildcards, ("training",))

    def _settings(self, wildcards: Wildcards, what: Sequence[str]) -> str:
        experiment = self.config["experiments"][wildcards.experiment]
        return json.dumps({key: experiment[key] for key in keys_that_decide(what)}, sort_keys=True)

    def certificate(self, wildcards: Wildcards) -> list[str]:
        """The certificate of a group; an empty list if it has one trainer."""
        file = f"{CERTIFICATES}/{CERTIFICATE_FILE}".format_map(wildcards)
        return [file] if file in self.certificates else []

    def figure_options(self, wildcards: Wildcards) -> str:
        """The options of a group's figures on the command line of plot.py, quoted for the shell."""
        group = (wildcards.experiment, wildcards.recipe, wildcards.dataset)
        runs = [run for run in self.runs if (run.experiment, run.recipe, run.dataset) == group]
        options = options_of_group(self.config["figures"], {str(run.trainer) for run in runs})
        return shlex.join(figure_arguments(options))

    def stale_record(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """Return what differs between a run's record and the config (`record_changes`). with_code: the code, too."""
        run_id = RUN_FOLDER.format_map(wildcards)
        path = RECORD_FILE.format_map(wildcards)
        if not os.path.exists(path):
            return []
        expected = self._expected_of_run(wildcards)
        return record_changes(Path(path), run_id, expected, self.training_code(wildcards) if with_code else None)

    @once_per_trainer
    def _expected_of_run(self, wildcards: Wildcards) -> dict:
        return self._expected(wildcards, self.settings, self.recipe)

    def stale_certificate(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """Return what differs between certificate and config (`certificate_changes`). with_code: the code, too."""
        return self._certificate_changes(wildcards, self.certified_trainers(wildcards), with_code)

    def _certificate_changes(self, wildcards: Wildcards, trainers: Sequence[Trainer], with_code: bool) -> list[str]:
        group = _group_of(wildcards)
        expected = self._expected(wildcards, self.certified_settings, self.certified_recipe)
        names = ["certify", *(trainer.name for trainer in trainers)]
        code = dict(zip(names, _certificate_code(wildcards.recipe, trainers), strict=True)) if with_code else None
        return certificate_changes(_certificate_of(wildcards), group, expected, code)

    def stale_tuning(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """Return what differs between a timed tuning and the config (`tuning_changes`). with_code: the code, too."""
        expected = self._expected(wildcards, self.settings, self.recipe)
        code = self.training_code(wildcards) if with_code else None
        return tuning_changes(Path(TUNING_FILE.format_map(wildcards)), wildcards, expected, code)

    def stale_tables(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """Return what differs between tables and config (`tables_changes`). Their code is a parameter of their rule."""
        return tables_changes([*self.records, *self.certificates, *self.evaluations, *self.tunings], self.order)

    def _expected(self, wildcards: Wildcards, settings: Callable, recipe: Callable) -> dict:
        """Return the settings and the recipe as JSON values, the dataset's name and the digests of the other inputs."""
        return {
            "settings": json.loads(settings(wildcards)),
            "recipe": json.loads(recipe(wildcards)),
            "dataset": wildcards.dataset,
            "mean_sha256": next(map(sha256_of_input, self.mean_image(wildcards)), None),
            "initial_weights_sha256": next(map(sha256_of_input, self.initial_weights(wildcards)), None),
        }

    def mean_image(self, wildcards: Wildcards) -> list[str]:
        """The mean image that a run reads; an empty list for texts and commands."""
        return mean_array(wildcards.dataset, self.catalogue) if wildcards.dataset in self.catalogue else []

    def initial_weights(self, wildcards: Wildcards) -> list[str]:
        """The file of weights that a run or a certificate starts from; an empty list for drawn weights and commands."""
        trainer = trainer_in(wildcards)
        of_command = trainer is not None and trainer.framework == FRAMEWORK
        file = None if of_command else initial_weights_file(self.config["experiments"][wildcards.experiment])
        return [str(file)] if file else []

    def command(self, wildcards: Wildcards) -> dict:
        """The command of a run."""
        command: dict = self.config["experiments"][wildcards.experiment]["commands"][wildcards.recipe]
        return command

    def fetched(self, wildcards: Wildcards) -> str:
        """The files that are fetched for a command, as JSON in the form of a dataset's entry."""
        files = self.command(wildcards)["files"]
        return json.dumps({"files": [{"name": file["path"], **file} for file in files]}, sort_keys=True)

    @once_per_trainer
    def recipe(self, wildcards: Wildcards) -> str:
        """The values of the recipe that affect a run, as JSON. Those of a command are the whole command."""
        if trainer_of(wildcards).framework == FRAMEWORK:
            return json.dumps(self.command(wildcards), sort_keys=True)
        return json.dumps(recipe_values(RECIPES[wildcards.recipe]), sort_keys=True)

    def tuning(self, wildcards: Wildcards) -> list[str]:
        """The timed tuning that a run reads; an empty list for a stock loop, or if nothing is timed."""
        timed = is_timed(wildcards.experiment, trainer_of(wildcards), self.config)
        return [TUNING_FILE.format_map(wildcards)] if timed else []

    def packed_images(self, wildcards: Wildcards) -> list[str]:
        """The packed images that a training of an experiment reads, if its loader asks for them."""
        loader = self.config["experiments"][wildcards.experiment]["loader"]
        return packed_to_train(wildcards.dataset, self.catalogue, loader)

    def packed_option(self, wildcards: Wildcards) -> str:
        """The option that names the folder of the packed images; an empty text if none are read."""
        return option("--packed", packed_folder(wildcards.dataset) if self.packed_images(wildcards) else None)

    @once_per_trainer
    def training_options(self, wildcards: Wildcards) -> str:
        """The options of a training, apart from its run: the dataset, what is made from it, and the settings."""
        options = [
            option("--dataset-folder", prepared_folder(wildcards.dataset)),
            option("--mean", next(iter(self.mean_image(wildcards)), None)),
            self.packed_option(wildcards),
            option("--settings", self.settings(wildcards)),
            option("--tuning", next(iter(self.tuning(wildcards)), None)),
        ]
        return " ".join(filter(None, options))

    def run_depends(self, wildcards: Wildcards) -> list:
        """What else makes a run stale, if it changes: the recipe and the code."""
        return [self.recipe(wildcards), self.training_code(wildcards)]

    def certified_recipe(self, wildcards: Wildcards) -> str:
        """The values of the recipe that affect a certificate, as JSON."""
        return json.dumps(certified_recipe_values(RECIPES[wildcards.recipe]), sort_keys=True)

    def described_recipes(self) -> str:
        """The values of the recipes that the report prints, as JSON."""
        names = sorted({run.recipe for run in self._trainings})
        return json.dumps({name: [getattr(RECIPES[name], key) for key in SHOWN_OF_RECIPES] for name in names})

    def turn(self, wildcards: Wildcards) -> int:
        """The priority of a run. Earlier runs in the order have a higher priority."""
        return self._turns[RUN_FOLDER.format_map(wildcards)]

    def group(self, wildcards: Wildcards, size: int) -> str | None:
        """The name of the group of a run: `size` runs on the same device that follow each other in the order."""
        if size == 1:
            return None
        return f"runs-{trainer_of(wildcards).device}-{self._place_on_device[RUN_FOLDER.format_map(wildcards)] // size}"

    def is_repeated(self, wildcards: Wildcards) -> bool:
        """Whether this call trains a finished run again."""
        return RUN_FOLDER.format_map(wildcards) in self.repeated

    @property
    def before_runs(self) -> int:
        """A priority higher than that of every run."""
        return len(self.order) + 1

    def of_dataset(self, look_up: Callable) -> Callable[[Wildcards], object]:
        """Turn a function of a dataset's name and the catalogue into a function of wildcards."""
        return lambda wildcards: look_up(wildcards.dataset, self.catalogue)

    def trainers(self, wildcards: Wildcards) -> list[Trainer]:
        """The trainers of a group, in the order of the config."""
        return self._trainers[wildcards.experiment, wildcards.recipe, wildcards.dataset]

    def certified_trainers(self, wildcards: Wildcards) -> list[Trainer]:
        """The trainers of a certificate, in the order of the config.

        A certificate that was made before some trainers failed holds these, too. It is not made again.
        """
        with_runs = self.trainers(wildcards)
        planned = self._planned_trainers[wildcards.experiment, wildcards.recipe, wildcards.dataset]
        if planned == with_runs or not _certificate_of(wildcards).exists():
            return with_runs
        return with_runs if self._certificate_changes(wildcards, planned, True) else planned

    def most_workers(self, wildcards: Wildcards) -> int:
        """The largest number of workers of a certificate's trainers, who all train the same steps."""
        return max(trainer.workers for trainer in self.certified_trainers(wildcards))

    def traces(self, wildcards: Wildcards) -> list[str]:
        """The traces of all trainers of a certificate."""
        group = _group_of(wildcards)
        return [TRACE_FILE.format(**group, trainer=trainer) for trainer in self.certified_trainers(wildcards)]

    def evaluated(self, wildcards: Wildcards) -> list[str]:
        """The records of the runs that a trainer evaluates: those of the previous trainer in its group."""
        trainers = self.trainers(wildcards)
        before = trainers[trainers.index(trainer_of(wildcards)) - 1]
        group = (wildcards.experiment, wildcards.recipe, wildcards.dataset)
        return [
            RECORD_FILE.format_map(vars(run))
            for run in self.runs
            if (run.experiment, run.recipe, run.dataset) == group and run.trainer == before
        ]

    # --- the code that a job depends on -----------------------------------------------------------------------------

    @once_per_trainer
    def training_code(self, wildcards: Wildcards) -> str:
        """Digest of the code of a job with a trainer: its run, trace, timed tuning or evaluation of other runs."""
        return run_code(wildcards.recipe, trainer_of(wildcards))["sha256"]

    def certificate_code(self, wildcards: Wildcards) -> list[str]:
        """Digests of the code that compares the traces of a group, and of the code that writes each of them."""
        return _certificate_code(wildcards.recipe, self.certified_trainers(wildcards))

    def preparing_code(self, wildcards: Wildcards) -> str:
        """Digest of the code that prepares a dataset."""
        return preparing_digest(self.catalogue[wildcards.dataset]["format"])


def _group_of(wildcards: Wildcards) -> dict[str, str]:
    return {key: getattr(wildcards, key) for key in ("experiment", "recipe", "dataset")}


def _certificate_of(wildcards: Wildcards) -> Path:
    return Path(CERTIFICATES, CERTIFICATE_FILE.format(**_group_of(wildcards)))


def _certificate_code(recipe: str, trainers: Sequence[Trainer]) -> list[str]:
    return [digest("certify"), *(run_code(recipe, trainer)["sha256"] for trainer in trainers)]


def option(name: str, files: str | Iterable[str] | None) -> str:
    """Return a command line option with its file, quoted for the shell, or an empty text without a file."""
    return f"{name} {shlex.quote(str(files))}" if files else ""
