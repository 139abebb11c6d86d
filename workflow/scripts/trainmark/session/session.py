"""One call of snakemake: its campaign, what its jobs need, and what is done before and after them."""

import gc
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, cached_property, wraps
from pathlib import Path
from typing import Any

from trainmark.cluster.site import PREVIEW_VARIABLE, Site, check_sections, read_site, scheduler_of, site_file
from trainmark.config.load import default_config, load_config, read_documents
from trainmark.console import Terminal, print_line
from trainmark.errors import ADVICE, ConfigError, TrainmarkError, in_one_sentence
from trainmark.machine.gpus import find_gpus
from trainmark.plan import products
from trainmark.plan.campaign import Campaign, Wildcards, option, trainer_of
from trainmark.plan.jobs import Folder, make_plan
from trainmark.plan.local_files import with_local_files
from trainmark.plan.matrix import asks_for_gpus, datasets_of, with_devices
from trainmark.plan.own_data import own_data
from trainmark.plan.plan_file import PARTIAL_VARIABLE, plan_if_there, read_plan, refuse_other_folders
from trainmark.plan.products import PLAN_FILE
from trainmark.session import internals
from trainmark.session.display import CHECKING_CLAIMS, WorkflowDisplay, show_workflow
from trainmark.session.environments import (
    conda_file,
    environment_of,
    environment_of_command,
    image_of_command,
    isolate_jobs,
    put_python_on_path,
    required_image,
)
from trainmark.session.kept import runs_to_repeat, why_trained
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
    """The call of snakemake that reads the rules.

    campaign: the runs of the config. Only the process that plans the workflow makes the plan; a job that reads the
        Snakefile again, on a cluster node for example, reads it.
    """

    @refusing
    def __init__(self, workflow: Any, config: Mapping) -> None:
        # Until start(): a plan of thousands of jobs has millions of objects, nearly all of which live on.
        gc.disable()
        put_python_on_path()
        self._workflow = workflow
        self._call = call = internals.call_of(workflow)
        isolate_jobs(call)
        if call.moves_results:
            sys.exit(
                f"the module {call.module} has a prefix or replace_prefix, which trainmark does not support;"
                " leave it out, and choose the folder with snakemake --directory"
            )
        self.default_config = str(default_config())
        self._terminal = Terminal(sys.stderr)  # writes on after its pipe has ended (snakemake ... 2>&1 | head)
        self._partial = PARTIAL_VARIABLE in os.environ  # tables and report after jobs that failed (session/hooks.py)
        self._gpu_found = False
        self._display: WorkflowDisplay | None = None
        self._lock: ExitStack | None = None
        self._makes_tables = False
        given: tuple = (call.configfiles or [self.default_config], call.config, None)
        if call.config_of_module:
            given = ([], config, f"config of the module {call.module}")
        self._config, catalogue = load_config(*given, fetches=call.plans_jobs)
        if call.plans_jobs:
            self.campaign = self._planned(catalogue, given)
            self._show()
        else:
            self.campaign = Campaign(read_plan(Path(PLAN_FILE)))

    def _planned(self, catalogue: Mapping, given: tuple) -> Campaign:
        """Return the campaign of the config, whose jobs this call plans."""
        refuse_other_folders(Path(PLAN_FILE))
        self._gpu_found = asks_for_gpus(self._config) and bool(find_gpus())
        documents, here = read_documents(*given), self._call.runs_here()
        self._config, catalogue = with_local_files(
            self._config, catalogue, documents, refuses=not self._partial, here=here
        )
        config = with_devices(self._config, self._gpu_found)
        earlier, folder = plan_if_there(Path(PLAN_FILE)), Folder(any_code=config["any_code"])
        own = own_data(datasets_of(config, catalogue), catalogue, earlier)
        missing = earlier["missing"] if self._partial else {}
        plan = make_plan(config, catalogue, missing=missing, own=own, folder=folder)
        if not self._partial and (again := runs_to_repeat(plan, config, self._terminal)):
            plan = make_plan(config, catalogue, again=again, own=own, folder=folder)
        campaign = Campaign(plan, config["only"])
        if campaign.only and not campaign.chosen:
            such_as = f", such as {plan['order'][0]}" if plan["order"] else "; this config has no runs"
            raise ConfigError(f"only: found {campaign.only[0]}; allowed: a pattern of run ids{such_as}")
        return campaign

    def _show(self) -> None:
        """Show this call's progress in place of Snakemake's messages about jobs."""
        workflow, call = self._workflow, self._call
        if profile := os.environ.get(PREVIEW_VARIABLE):
            from trainmark.cluster.preview import Preview

            internals.replace_terminal_handler(lambda _: Preview(profile))
        elif call.module:
            internals.call_at_start(workflow, self.start)
        else:
            self._display = show_workflow(self.campaign.order, workflow, call)
            if self._display and call.is_dry_run:
                self._display.before_jobs = lambda: self._announce(internals.jobs_to_run(workflow))

    # --- what is there ----------------------------------------------------------------------------------------------

    @cache  # noqa: B019 (a call has one session)
    def is_made(self, file: str) -> bool:
        """Return whether a file is there. A result whose path has a key is then final: no job makes it again.

        It is looked up once, so that all jobs of a call agree on it. A file that is not whole does not count, nor does
        the evaluation of a run whose record was deleted: the next training may give other weights. In a preview of all
        jobs, and where no job runs, as with --report, none does. Nor is any looked up in a job on a cluster node, where
        Snakemake runs that job alone: there may be thousands.
        """
        if PREVIEW_VARIABLE in os.environ or not (self._call.runs_jobs and self._call.plans_jobs):
            return False
        files = (file, products.last_of(file), *self.campaign.evaluated_records.get(file, ()))
        return all(map(os.path.exists, files))

    @property
    def asked_records(self) -> list[str]:
        """The records to train that the rule all asks for: of some runs only, or deleted ones.

        For tables that are there, Snakemake would not train a run whose record was deleted. Tables that are not there
        ask for all of their records, which Snakemake would have to list twice.
        """
        campaign = self.campaign
        asks = campaign.only or self.is_made(campaign.tables_made)
        return [file for file in campaign.chosen if not self.is_made(file)] if asks else []

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
        cores = self._call.cores
        if not cores or not self._call.plans_jobs or not self._call.runs_here() or PREVIEW_VARIABLE in os.environ:
            return THREADS[device]
        most = self._most_workers(split_name(wildcards.experiment)[0])
        beside_cpu = any(trainer.device == "cpu" for trainer in self.campaign.trainers_of_runs)
        return threads_that_fit(device, cores, most, beside_cpu)

    def takes_all_threads(self, wildcards: Wildcards) -> bool:
        """Return whether a worker gets all threads that it may have, as it does on a cluster."""
        return self.threads(wildcards) == THREADS[trainer_of(wildcards).device]

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
        return lambda wildcards: amount * trainer_of(wildcards).workers

    def framework_environment(self, wildcards: Wildcards) -> str | None:
        """Return the conda file of a framework's job; None, which costs no time, if jobs run in this environment."""
        is_used = self._call.deployment or not self._call.runs_jobs  # such as with --containerize
        return str(conda_file(environment_of(trainer_of(wildcards)))) if is_used else None

    def framework_image(self, wildcards: Wildcards) -> str | None:
        """Return the container image of a framework's job."""
        image: str | None = self.image(environment_of(trainer_of(wildcards)))
        return image

    @cache  # noqa: B019 (a call has one session)
    @refusing
    def image(self, environment: str) -> str | None:
        """Return the container image of an environment. Without --sdm apptainer there need not be one."""
        return required_image(environment) if "apptainer" in self._call.deployment else None

    @refusing
    def command_environment(self, wildcards: Wildcards) -> str | None:
        """Return the conda file of a command; None if it needs none."""
        device = trainer_of(wildcards).device
        return environment_of_command(self.campaign.command(wildcards), device, self._call.deployment)

    @refusing
    def command_image(self, wildcards: Wildcards) -> str:
        """Return the option that names the image in which a command runs."""
        device = trainer_of(wildcards).device
        return option("--image", image_of_command(self.campaign.command(wildcards), device, self._call.deployment))

    @property
    def has_site(self) -> bool:
        """Whether there is a site file, which may put several trainings into a job on a cluster."""
        return site_file().exists()

    @property
    def runs_per_job(self) -> int:
        """The number of trainings that one job on a cluster may do (the site file's key)."""
        return self._site.runs_per_job if self._call.plans_jobs and self._site else 1

    def group_of_run(self, wildcards: Wildcards) -> str | None:
        """Return the group of a run. A run with several workers is always a job of its own, which asks for as many."""
        if self.tasks(wildcards) or self.runs_per_job == 1:
            return None
        group = self.campaign.group(wildcards, self.runs_per_job)
        internals.set_group_size(self._workflow, group, self.runs_per_job)
        return group

    @cached_property
    @refusing
    def _site(self) -> Site | None:
        scheduler = self._call.scheduler()
        return read_site(scheduler_of(scheduler)) if scheduler else None

    # --- before and after the jobs ----------------------------------------------------------------------------------

    def _announce(self, jobs: list) -> None:
        """Print how many runs are to be trained, and why, if others of them are there."""
        for line in why_trained(self.campaign, jobs):
            print_line(line, self._terminal)

    @refusing
    def start(self) -> None:
        """Prepare the workflow before the first job.

        Modules are imported here because their packages may be missing in a dry run, which needs only Snakemake.
        """
        if self._lock:  # called already: the workflow that uses this module also calls its onstart
            return
        from trainmark.session.hooks import start_workflow

        gc.freeze()
        gc.enable()
        internals.lift_job_rate(self._workflow)
        jobs = internals.jobs_to_run(self._workflow)
        self._makes_tables = any(job.rule.name == "collect_records" for job in jobs)
        self._lock = start_workflow(
            self.campaign,
            self._config,
            jobs,
            gpu_found=self._gpu_found,
            local=self._call.runs_here(),
            deployed=bool(self._call.deployment),
        )
        if self._site:
            check_sections(self._site, products.SUBMITTED_RULES)
        if self._display:
            self._announce(jobs)
            self._display.start(job.wildcards_dict for job in jobs if job.rule.name in products.TRAINING_RULES)

    def finish(self) -> None:
        """Print the results after the last job, if none failed."""
        from trainmark.session.hooks import print_results

        if self._display:  # a module has none
            self._display.stop()
        print_results(self.campaign, self._terminal)

    def fail(self) -> None:
        """After the last job, if one failed, make the tables and the report of the runs that are done.

        If only claims have failed, print the results.
        """
        from trainmark.session.hooks import finish_without, missing_runs, print_results

        if not (self._display and self._lock):
            return
        self._display.stop()
        if self._display.is_stopping:
            print_line("stopped; the same call resumes", self._terminal)
        if internals.failed_by_itself(self._workflow) and self._makes_tables and not self._partial:
            self._lock.close()
            if {failure.title for failure in self._display.failures} == {CHECKING_CLAIMS}:
                print_results(self.campaign, self._terminal)
                return
            missing = missing_runs(self.campaign, self._display.failures, self._display.not_trained())
            configfiles = list(map(str, self._call.configfiles))
            files = ["--snakefile", self._call.snakefile, *(["--configfile", *configfiles] if configfiles else [])]
            finish_without(self.campaign, missing, files, self._terminal)
