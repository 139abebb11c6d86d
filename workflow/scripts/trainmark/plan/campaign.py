"""What a workflow is going to do: its runs, their order and files, and what its rules look up by their wildcards."""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainmark.config.load import keys_that_decide
from trainmark.plan.code_digests import digest
from trainmark.plan.dependencies import (
    certified_recipe_values,
    evaluating_code,
    preparing_code,
    recipe_values,
    report_code,
    tracing_code,
    training_code,
)
from trainmark.plan.figures import FIGURE_FORMATS, known_figures
from trainmark.plan.matrix import certified_groups, expand_runs, trained_order
from trainmark.plan.products import (
    CERTIFICATES,
    EVALUATIONS,
    FIGURE_FILE,
    RECORD_FILE,
    TRACE_FILE,
    evaluation_files,
    products,
)
from trainmark.plan.run import CERTIFICATE_FILE, RUN_FOLDER, Run
from trainmark.plan.staleness import certificate_changes, record_changes, tables_changes
from trainmark.recipes.catalogue import RECIPES

SHOWN_OF_RECIPES = ("input_shape", "published_parameters", "published_classes", "source")
"""What the report prints of a recipe, besides its runs."""


Wildcards = Any
"""Snakemake's: the parts of an output's path as attributes; a rule has those that its output names."""


class Campaign:
    """All runs of a config, and everything that is made of them.

    config: checked, with defaults, and with its devices named (`matrix.with_devices`). catalogue: the dataset entries.
    missing: why a run has no record and is left out of `runs`, by its id; `order` holds it still. attempts: how often
    to have trained a run, by its id, where it is more than once (reruns.py). The functions of wildcards return what a
    job depends on, in the form that its rule hands to Snakemake.
    """

    def __init__(self, config: Mapping, catalogue: Mapping, missing: Mapping[str, str] | None = None) -> None:
        self.config = config
        self.catalogue = catalogue
        self.missing = dict(missing or {})
        runs = expand_runs(config)
        self.runs: list[Run] = [run for run in runs if run.id not in self.missing]
        self.order: list[str] = [run.id for run in trained_order(runs, config)]
        self._turns = {run_id: turn for turn, run_id in enumerate(reversed(self.order), start=1)}
        self._trainers = certified_groups(self.runs)
        self.attempts: dict[str, int] = {}

    # --- files ------------------------------------------------------------------------------------------------------

    @property
    def records(self) -> list[str]:
        """The record of each run."""
        return [RECORD_FILE.format_map(vars(run)) for run in self.runs]

    @property
    def frameworks(self) -> list[str]:
        """The frameworks of all runs, each once."""
        return list(dict.fromkeys(run.framework for run in self.runs))

    @property
    def certificates(self) -> list[str]:
        """The certificate of each group that has two trainers or more."""
        return [
            f"{CERTIFICATES}/{CERTIFICATE_FILE}".format(experiment=experiment, recipe=recipe, dataset=dataset)
            for experiment, recipe, dataset in self._trainers
        ]

    @property
    def evaluations(self) -> list[str]:
        """The cross-evaluations of each group that has two trainers or more and writes its weights: one a trainer."""
        return [f"{EVALUATIONS}/{file}" for file in evaluation_files(self.config, self._trainers)]

    @property
    def figures(self) -> list[str]:
        """Every figure of each experiment, recipe and dataset, in each format."""
        groups = sorted({(run.experiment, run.recipe, run.dataset) for run in self.runs})
        return [
            FIGURE_FILE.format(experiment=experiment, recipe=recipe, dataset=dataset, figure=figure) + kind
            for experiment, recipe, dataset in groups
            for figure in known_figures()
            for kind in FIGURE_FORMATS
        ]

    @property
    def products(self) -> list[str]:
        """What is made of each dataset that is trained on, or is to be prepared."""
        return products(sorted({run.dataset for run in self.runs} | set(self.config["prepare"])), self.catalogue)

    @property
    def descriptions(self) -> list[str]:
        """The description of each experiment."""
        return [experiment["description"] for experiment in self.config["experiments"].values()]

    # --- what a job depends on, by its wildcards --------------------------------------------------------------------

    def settings(self, wildcards: Wildcards) -> str:
        """The settings that decide a run, as JSON."""
        return self._settings(wildcards, ("training", "record"))

    def certified_settings(self, wildcards: Wildcards) -> str:
        """The settings that decide a certificate, as JSON."""
        return self._settings(wildcards, ("training",))

    def _settings(self, wildcards: Wildcards, what: Sequence[str]) -> str:
        experiment = self.config["experiments"][wildcards.experiment]
        return json.dumps({key: experiment[key] for key in keys_that_decide(what)}, sort_keys=True)

    def stale_record(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """What of a run's record is not as asked (`record_changes`). with_code: whether the code counts."""
        run_id = RUN_FOLDER.format_map(wildcards)
        path = Path(RECORD_FILE.format_map(wildcards))
        asked = self._asked(wildcards, self.settings, self.recipe)
        return record_changes(path, run_id, asked, self.training_code(wildcards) if with_code else None)

    def stale_certificate(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """The same of a group's certificate."""
        group = {key: getattr(wildcards, key) for key in ("experiment", "recipe", "dataset")}
        path = Path(CERTIFICATES, CERTIFICATE_FILE.format(**group))
        asked = self._asked(wildcards, self.certified_settings, self.certified_recipe)
        frameworks = sorted({framework for framework, _ in self.trainers(wildcards)})
        code = dict(zip(["certify", *frameworks], self.certificate_code(wildcards), strict=True)) if with_code else None
        return certificate_changes(path, group, asked, code)

    def stale_tables(self, wildcards: Wildcards, with_code: bool) -> list[str]:
        """Of the tables what is not as asked (`tables_changes`); their code is Snakemake's to know."""
        return tables_changes([*self.records, *self.certificates, *self.evaluations], self.order)

    def _asked(self, wildcards: Wildcards, settings: Callable, recipe: Callable) -> dict:
        """Settings and recipe as they come back from JSON, and the dataset."""
        return {
            "settings": json.loads(settings(wildcards)),
            "recipe": json.loads(recipe(wildcards)),
            "dataset": wildcards.dataset,
        }

    def recipe(self, wildcards: Wildcards) -> str:
        """What the recipe decides of a run, as JSON."""
        return json.dumps(recipe_values(RECIPES[wildcards.recipe]), sort_keys=True)

    def certified_recipe(self, wildcards: Wildcards) -> str:
        """What the recipe decides of a certificate, as JSON: how large its images are, too."""
        return json.dumps(certified_recipe_values(RECIPES[wildcards.recipe]), sort_keys=True)

    def described_recipes(self) -> str:
        """What the report prints of the recipes, as JSON."""
        names = sorted({run.recipe for run in self.runs})
        return json.dumps({name: [getattr(RECIPES[name], key) for key in SHOWN_OF_RECIPES] for name in names})

    def turn(self, wildcards: Wildcards) -> int:
        """The priority of a run: the earlier its place in the order, the higher."""
        return self._turns[RUN_FOLDER.format_map(wildcards)]

    def attempt(self, wildcards: Wildcards) -> int:
        """How often to have trained a run: one more makes it stale."""
        return self.attempts.get(RUN_FOLDER.format_map(wildcards), 1)

    @property
    def before_runs(self) -> int:
        """A priority above that of every run."""
        return len(self.order) + 1

    def of_dataset(self, look_up: Callable) -> Callable[[Wildcards], object]:
        """A function of a dataset's name and the catalogue, as one of wildcards."""
        return lambda wildcards: look_up(wildcards.dataset, self.catalogue)

    def trainers(self, wildcards: Wildcards) -> list[tuple[str, str]]:
        """(framework, device) of each trainer of a certificate, in the order of the config."""
        return self._trainers[wildcards.experiment, wildcards.recipe, wildcards.dataset]

    def traces(self, wildcards: Wildcards) -> list[str]:
        """The traces of all trainers of a certificate."""
        group = {key: getattr(wildcards, key) for key in ("experiment", "recipe", "dataset")}
        return [
            TRACE_FILE.format(**group, framework=framework, device=device)
            for framework, device in self.trainers(wildcards)
        ]

    def evaluated(self, wildcards: Wildcards) -> list[str]:
        """The records of the runs that a trainer evaluates: those of the trainer before it in its group."""
        trainers = self.trainers(wildcards)
        before = trainers[trainers.index((wildcards.framework, wildcards.device)) - 1]
        group = (wildcards.experiment, wildcards.recipe, wildcards.dataset)
        return [
            RECORD_FILE.format_map(vars(run))
            for run in self.runs
            if (run.experiment, run.recipe, run.dataset) == group and (run.framework, run.device) == before
        ]

    # --- the code that a job depends on -----------------------------------------------------------------------------

    def training_code(self, wildcards: Wildcards) -> str:
        """Digest of the code that trains a run."""
        return digest(*training_code(RECIPES[wildcards.recipe], wildcards.framework))

    def tracing_code(self, wildcards: Wildcards) -> str:
        """Digest of the code that traces a trainer."""
        return digest(*tracing_code(RECIPES[wildcards.recipe], wildcards.framework))

    def evaluating_code(self, wildcards: Wildcards) -> str:
        """Digest of the code that evaluates the runs of another trainer."""
        return digest(*evaluating_code(RECIPES[wildcards.recipe], wildcards.framework))

    def certificate_code(self, wildcards: Wildcards) -> list[str]:
        """Digests of the code that compares the traces of a group, and of the code that takes them."""
        recipe = RECIPES[wildcards.recipe]
        frameworks = sorted({framework for framework, _ in self.trainers(wildcards)})
        return [digest("certify"), *(digest(*tracing_code(recipe, framework)) for framework in frameworks)]

    def preparing_code(self, wildcards: Wildcards) -> str:
        """Digest of the code that prepares a dataset."""
        return digest(*preparing_code(self.catalogue[wildcards.dataset]["format"]))

    def report_code(self) -> str:
        """Digest of the code that writes the report."""
        return digest(*report_code(RECIPES[run.recipe] for run in self.runs))


def option(name: str, files: str | Iterable[str] | None) -> str:
    """A command line's option and its file, quoted for the shell; nothing where there is no file."""
    return f"{name} {shlex.quote(str(files))}" if files else ""
