"""One call of snakemake: its campaign, what rules look up for a job, and what is done before and after the jobs."""

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, cached_property, wraps
from itertools import chain
from pathlib import Path
from typing import Any

from trainmark.cluster.site import PREVIEW_VARIABLE, Site, check_sections, read_site, scheduler_of
from trainmark.config.load import default_config, load_config, merge, read_documents
from trainmark.console import Terminal, print_line
from trainmark.errors import ADVICE, ConfigError, TrainmarkError, in_one_sentence
from trainmark.machine.gpus import find_gpus
from trainmark.plan import internals, products
from trainmark.plan.campaign import Campaign, Wildcards, by_wildcards, option, trainer_of
from trainmark.plan.display import CHECKING_CLAIMS, WorkflowDisplay, show_workflow
from trainmark.plan.environments import (
    conda_file,
    environment_of,
    environment_of_command,
    image_of_command,
    isolate_jobs,
    put_python_on_path,
    required_image,
)
from trainmark.plan.file_times import check_file_times, keep_digests, raise_times, restore_order
from trainmark.plan.local_files import with_local_files
from trainmark.plan.matrix import asks_for_gpus, with_devices
from trainmark.plan.plan_file import PARTIAL_VARIABLE, read_plan, refuse_other_folders
from trainmark.plan.products import PLAN_FILE, RECORD_FILE
from trainmark.plan.replaced import announce
from trainmark.plan.reruns import runs_to_repeat
from trainmark.plan.staleness import sources_of_prepared
from trainmark.variant import split_name

THREADS = {"cpu": 2, "gpu": 4}
"""The most threads of a worker, by device. On a GPU run's threads, XLA compiles its programs and tries algorithms, and
images are loaded."""

LAUNCHER = "mpiexec --bind-to none"
"""What starts the workers of a run. Each worker chooses its CPUs itself, among those that no other run holds."""


def threads_that_fit(device: str, cores: int, workers: int, beside_cpu: bool) -> int:
    """Return the threads of each worker of a run on this device, among `cores` for all workers.

    Beside runs on the CPU, a run on the GPU gets more threads than they only if its cores and theirs fit side by side.
    Otherwise it would be trained when none of them is left, because Snakemake gives each core that gets free to a job
    that fits: with 4 cores, a campaign with a GPU takes up to half as long again, and its order is lost.

    workers: the most workers of a run of the experiment.
    beside_cpu: whether the campaign has runs on the CPU.
    """
    free = cores - THREADS["cpu"] if beside_cpu else cores
    return max(1, min(THREADS["cpu"], cores // workers), min(THREADS[device], free // workers))


def refusing(function: Callable) -> Callable:
    """Make a function end the call with the sentence of a TrainmarkError or an error in ADVICE, without a traceback.

    Snakemake would print lines of a traceback after a WorkflowError.
    """

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except (TrainmarkError, OSError) as error:
            if isinstance(error, OSError) and error.errno not in ADVICE:
                raise
            heading = "the config can't be used:\n" if isinstance(error, ConfigError) else ""
            sys.exit(f"{heading}{in_one_sentence(error)}")

    return call


class Session:
    """The call of snakemake that reads the rules. Methods of wildcards are what rules take for a job.

    campaign: the runs of the config. Only the process that plans the workflow finds out its devices; a job that reads
        the Snakefile again, on a cluster node for example, takes them from the plan.
    """

    @refusing
    def __init__(self, workflow: Any, config: Mapping) -> None:
        # Until start(), because a plan has millions of objects, nearly all of which live on, and no cycles that matter.
        gc.disable()
        put_python_on_path()
        isolate_jobs(workflow)
        internals.make_folder_by(workflow, products.PAPER_FOLDER, products.PAPER_STAMP)
        self._workflow = workflow
        self._module = internals.name_of_module(workflow)
        if internals.changes_paths(workflow, PLAN_FILE):
            sys.exit(
                f"the module {self._module} has a prefix or replace_prefix, which trainmark does not support;"
                " leave it out, and choose the folder with snakemake --directory"
            )
        self.default_config = str(default_config())
        self._plans = internals.plans_jobs(workflow)
        given = internals.given_config(workflow, config, self.default_config)
        self._config, catalogue = load_config(*given, fetches=self._plans)
        self._terminal = Terminal(sys.stderr)  # writes on after its pipe has ended (snakemake ... 2>&1 | head)
        self._partial = PARTIAL_VARIABLE in os.environ  # tables and report after jobs that failed (plan/hooks.py)
        self._gpu_found = self._plans and asks_for_gpus(self._config) and bool(find_gpus())
        self._display: WorkflowDisplay | None = None
        self._lock: ExitStack | None = None
        self._jobs: list = []
        self._stale: dict[str, list[str]] = {}  # what differs from the config, by the path of the result
        self._methods = internals.deployment_methods(workflow)
        if self._plans:
            self._config, catalogue = with_local_files(
                self._config,
                catalogue,
                read_documents(*given),
                refuses=not self._partial,
                here=internals.runs_here(workflow),
            )
            missing = read_plan(Path(PLAN_FILE))["missing"] if self._partial else {}
            self.campaign = Campaign(with_devices(self._config, self._gpu_found), catalogue, missing)
            self._plan()
        else:
            plan = read_plan(Path(PLAN_FILE))
            self.campaign = Campaign(plan["config"], merge(catalogue, plan["config"]["datasets"]), plan["missing"])

    def _plan(self) -> None:
        refuse_other_folders(Path(PLAN_FILE))
        restore_order()
        campaign = self.campaign
        if not self._partial:
            campaign.repeated = runs_to_repeat(campaign, self._config, self._terminal)
        if not self._module:
            self._display = show_workflow(campaign.order, self._workflow)
        if self._display and internals.is_dry_run(self._workflow):
            self._display.before_jobs = self._announce
            if internals.hides_jobs(self._workflow):
                internals.print_one_job_of_each_rule()
        if PREVIEW_VARIABLE in os.environ:
            from trainmark.cluster.preview import Preview

            internals.replace_all_handlers(Preview(os.environ[PREVIEW_VARIABLE], self._workflow))
        if self._module:
            internals.call_at_start(self._workflow, self.start)

    # --- inputs -----------------------------------------------------------------------------------------------------

    def remake_if_stale(self, changes: Callable, file: str) -> Callable[[Wildcards], list]:
        """Return an input function that returns no file, but makes Snakemake run the job if its output is stale.

        Code is compared only if changed parameters trigger jobs: `--rerun-triggers mtime` keeps results of other code.

        changes: a function that reads the output and returns what differs from the config.
        file: path of the output, with wildcards.
        """

        @refusing
        def look(wildcards: Wildcards) -> list:
            if self._module:  # again, because the main Snakefile may define its onstart handler after the module
                internals.call_at_start(self._workflow, self.start)
            if self._plans and (differences := changes(wildcards, self._compares_code())):
                path = file.format_map(wildcards)
                self._stale[path] = differences
                internals.make_again(self._workflow, [path])
            return []

        return refusing(look)

    def stale_record(self, wildcards: Wildcards) -> list:
        """Make Snakemake run the job of a run that is to be trained again."""
        if self._plans and self.campaign.is_repeated(wildcards):
            internals.make_again(self._workflow, [RECORD_FILE.format_map(wildcards)])
        return self._look_at_record(wildcards)

    @cached_property
    def _look_at_record(self) -> Callable[[Wildcards], list]:
        return self.remake_if_stale(self.campaign.stale_record, RECORD_FILE)

    @cache  # noqa: B019
    def _compares_code(self) -> bool:
        if internals.has_no_hooks(self._workflow):  # known since the jobs are looked for
            sys.exit(
                "--no-hooks leaves out trainmark's start, which writes the plan and locks the results; call without it"
            )
        return internals.compares_parameters(self._workflow)

    def packed_images(self, wildcards: Wildcards) -> list:
        """Return the packed images that a training reads, whatever their age: they may be deleted and made again."""
        return list(map(internals.ancient, self.campaign.packed_images(wildcards)))

    def after_gpu_check(self, wildcards: Wildcards) -> list:
        """Return the check of a framework on the GPU (rule check_gpu), which its GPU runs wait for.

        Each call that trains on the GPU makes it. Finished runs keep it as an input, as other inputs would make their
        records again, with flags that ignore its age (ancient) and the job that makes it (before_update).
        """
        checks = products.gpu_check(trainer_of(wildcards))
        if not checks:
            return []
        if not self._is_kept(wildcards):
            if self._plans:
                internals.make_again(self._workflow, checks)
            return checks
        for check in checks:  # a file without a job must exist
            Path(check).parent.mkdir(parents=True, exist_ok=True)
            Path(check).touch()
        return [internals.ancient(internals.before_update(check)) for check in checks]

    def inputs_of_run(self, wildcards: Wildcards) -> dict[str, Any]:
        """Return the inputs of a training by name, and make Snakemake run it if its record is stale.

        They come from one function, because each one that Snakemake calls takes time in a matrix of thousands of runs.
        """
        stale = self.stale_record(wildcards)
        compared = {
            "dataset": [products.prepared_folder(wildcards.dataset)],
            "mean": self.campaign.mean_image(wildcards),
            "weights": self.campaign.initial_weights(wildcards),
        }
        packed = self.campaign.packed_images(wildcards)
        if self._is_kept(wildcards):
            compared = self._whatever_time(wildcards, compared)
            packed = self.packed_images(wildcards)
        return compared | {
            "packed": packed,
            "tuning": self.campaign.tuning(wildcards),
            "stale": stale,
            "gpu": self.after_gpu_check(wildcards),
        }

    def inputs_of_command(self, wildcards: Wildcards) -> dict[str, Any]:
        """Return the inputs of a run of a command by name, and make Snakemake run it if its record is stale.

        The age of its files does not count, because the command, which records hold, has their digests. They are not
        marked so where it runs again: Snakemake forgets that it must if another job makes marked inputs anew.
        """
        stale = self.stale_record(wildcards)
        sources = f"{products.COMMAND_FOLDER}/sources.json".format_map(wildcards)
        return {"sources": internals.ancient(sources) if self._is_kept(wildcards) else sources, "stale": stale}

    def _is_kept(self, wildcards: Wildcards) -> bool:
        """Return whether a run has a record of what the config asks for."""
        record = RECORD_FILE.format_map(wildcards)
        return os.path.exists(record) and record not in self._stale and not self.campaign.is_repeated(wildcards)

    def _whatever_time(self, wildcards: Wildcards, inputs: dict[str, list[str]]) -> dict[str, list[str]]:
        """Return the inputs of a record that names their digests, so that their times do not make it stale.

        A dataset and mean image that are not there are left out: Snakemake would train again on any that are made.
        """
        name, record = wildcards.dataset, RECORD_FILE.format_map(wildcards)
        missing = not all(map(os.path.exists, inputs["dataset"] + inputs["mean"]))
        if missing and not internals.forces_jobs(self._workflow):
            return inputs | {"dataset": [], "mean": []}
        if self._plans:
            self._order_dataset(name)
            raise_times([record], chain(*inputs.values()))
        return inputs

    @cache  # noqa: B019 (once for the runs on a dataset, which may be thousands)
    def _order_dataset(self, name: str) -> None:
        prepared = [products.prepared_folder(name)]
        raise_times(prepared, sources_of_prepared(name))
        raise_times(products.mean_files(name, self.campaign.catalogue), prepared)

    # --- resources and software -------------------------------------------------------------------------------------

    def gpus(self, wildcards: Wildcards) -> int | None:
        """Return the number of GPUs of a framework's job; None, as not every scheduler understands a request for 0."""
        return 1 if trainer_of(wildcards).device == "gpu" else None

    def gpus_of_workers(self, wildcards: Wildcards) -> int | None:
        """Return the number of GPUs of all workers of a framework's job, see `gpus`."""
        return self.gpus(wildcards) and trainer_of(wildcards).workers

    def launcher(self, wildcards: Wildcards) -> str:
        """Return the command that starts the workers of a framework's job; an empty text for one worker."""
        return LAUNCHER if trainer_of(wildcards).workers > 1 else ""

    def tasks(self, wildcards: Wildcards) -> int | None:
        """Return the number of workers of a framework's job; None for one, since a group of jobs would sum them."""
        workers = trainer_of(wildcards).workers
        return workers if workers > 1 else None

    def threads(self, wildcards: Wildcards) -> int:
        """Return the threads of each worker: those of THREADS, or fewer if the cores of this call are not enough.

        All trainers of an experiment on a device get as many, also in its variants, so that their workers differ in
        number alone.
        """
        device = trainer_of(wildcards).device
        if not self._plans or not internals.runs_here(self._workflow) or PREVIEW_VARIABLE in os.environ:
            return THREADS[device]
        most = self._most_workers(split_name(wildcards.experiment)[0])
        beside_cpu = any(trainer.device == "cpu" for trainer in self.campaign.trainers_of_runs)
        return threads_that_fit(device, self._workflow.cores, most, beside_cpu)

    @cache  # noqa: B019 (a call has one session)
    def _most_workers(self, experiment: str) -> int:
        """Return the largest number of workers of an experiment, variants included."""
        found = [1]
        for name, own in self.campaign.config["experiments"].items():
            if split_name(name)[0] == experiment:
                found += own.get("workers", [])
        return max(found)

    def for_each_worker(self, amount: int) -> Callable[[Wildcards], int]:
        """Return a function that gives a job this amount of a resource for each of its workers."""
        return by_wildcards(lambda wildcards: amount * trainer_of(wildcards).workers)

    def framework_environment(self, wildcards: Wildcards) -> str:
        """Return the conda file of a framework's job."""
        return str(conda_file(environment_of(trainer_of(wildcards))))

    def framework_image(self, wildcards: Wildcards) -> str | None:
        """Return the container image of a framework's job."""
        image: str | None = self.image(environment_of(trainer_of(wildcards)))
        return image

    @cache  # noqa: B019 (a call has one session)
    @refusing
    def image(self, environment: str) -> str | None:
        """Return the container image of an environment. Without --sdm apptainer there need not be one."""
        return required_image(environment) if "apptainer" in self._methods else None

    @refusing
    def command_environment(self, wildcards: Wildcards) -> str | None:
        """Return the conda file of a command; None if it needs none."""
        device = trainer_of(wildcards).device
        return environment_of_command(self.campaign.command(wildcards), device, self._methods)

    @refusing
    def command_image(self, wildcards: Wildcards) -> str:
        """Return the option that names the image in which a command runs."""
        device = trainer_of(wildcards).device
        return option("--image", image_of_command(self.campaign.command(wildcards), device, self._methods))

    def group_of_run(self, wildcards: Wildcards) -> str | None:
        """Return the group of a run: on a cluster, one job may do several trainings (runs_per_job in the site file).

        A run with several workers is always a job of its own, which asks for as many tasks.
        """
        size = self._site.runs_per_job if self._plans and self._site and not self.tasks(wildcards) else 1
        if group := self.campaign.group(wildcards, size):
            internals.set_group_size(self._workflow, group, size)
        return group

    @cached_property
    @refusing
    def _site(self) -> Site | None:
        profile = internals.cluster_profile(self._workflow)
        return read_site(scheduler_of(profile)) if profile else None

    # --- before and after the jobs ----------------------------------------------------------------------------------

    def _announce(self) -> None:
        """Print what a call would replace, in a dry run."""
        announce(self.campaign, internals.jobs_to_run(self._workflow), self._stale, self._terminal, pauses=False)

    @refusing
    def start(self) -> None:
        """Prepare the workflow before the first job.

        Modules are imported here because their packages may be missing in a dry run, which needs only Snakemake.
        """
        if self._lock:  # called already: the workflow that uses this module also calls its onstart
            return
        if internals.is_touch(self._workflow):  # no job makes anything, so temporary files must not be removed either
            internals.keep_temporary_files(self._workflow)
            return
        from trainmark.plan.hooks import start_workflow

        gc.freeze()
        gc.enable()
        internals.lift_job_rate(self._workflow)
        self._jobs = jobs = internals.jobs_to_run(self._workflow)
        check_file_times(jobs)
        self._lock = start_workflow(
            self.campaign,
            self._config,
            jobs,
            gpu_found=self._gpu_found,
            local=internals.runs_here(self._workflow),
            deployed=bool(self._methods),
            stale=self._stale,
        )
        if self._site:
            check_sections(self._site, internals.submitted_rules(self._workflow))
        if self._display:
            self._display.start(job.wildcards_dict for job in jobs if job.rule.name in products.TRAINING_RULES)

    def finish(self) -> None:
        """Print the results after the last job, if none failed."""
        from trainmark.plan.hooks import print_results

        if self._display:  # a module has none
            self._display.stop()
        self._keep_digests()
        print_results(self.campaign, self._terminal)

    def fail(self) -> None:
        """After the last job, if one failed, make the tables and the report of the runs that are done.

        If only claims have failed, print the results.
        """
        from trainmark.plan.hooks import finish_without, missing_runs, print_results

        if not (self._display and self._lock):
            return
        self._display.stop()
        self._keep_digests()
        if self._display.is_stopping:
            print_line("stopped; the same call resumes", self._terminal)
        failed = internals.failed_by_itself(self._workflow)
        if failed and not internals.makes_selected(self._workflow) and not self._partial:
            self._lock.close()
            if {failure.title for failure in self._display.failures} == {CHECKING_CLAIMS}:
                print_results(self.campaign, self._terminal)
                return
            missing = missing_runs(self.campaign, self._display.failures, self._display.not_trained())
            finish_without(self.campaign, missing, internals.files_of_call(self._workflow), self._terminal)

    def _keep_digests(self) -> None:
        left = set(internals.jobs_to_run(self._workflow))
        ended = [job for job in self._jobs if job not in left]
        keep_digests((internals.dated_inputs(job), list(map(str, job.output))) for job in ended)
