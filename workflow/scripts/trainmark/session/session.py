"""One call of snakemake: its campaign, what its jobs need, and what is done before and after them."""

import gc
import os
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.cluster.site import PREVIEW_VARIABLE, check_sections
from trainmark.config.load import default_config, load_config, read_documents
from trainmark.console import Terminal, print_line
from trainmark.errors import ConfigError, refusing
from trainmark.machine.gpus import find_gpus
from trainmark.plan import products
from trainmark.plan.campaign import Campaign
from trainmark.plan.jobs import Folder, make_plan
from trainmark.plan.local_files import with_local_files
from trainmark.plan.matrix import asks_for_gpus, datasets_of, with_devices
from trainmark.plan.own_data import own_data
from trainmark.plan.plan_file import PARTIAL_VARIABLE, plan_if_there, read_plan, refuse_other_folders
from trainmark.plan.products import PLAN_FILE
from trainmark.session import internals, mending
from trainmark.session.display import CHECKING_CLAIMS, WorkflowDisplay, show_workflow
from trainmark.session.environments import isolate_jobs, put_python_on_path
from trainmark.session.kept import runs_to_repeat, why_trained
from trainmark.session.other_calls import options_of_call
from trainmark.session.resources import Resources


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
        self.resources = Resources(workflow, call, self.campaign)

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
        again = mending.asked_again()
        is_first = not (self._partial or mending.is_mending())
        if repeated := runs_to_repeat(plan, config, self._terminal) if is_first else set(again):
            plan = make_plan(config, catalogue, again=repeated, own=own, folder=folder)
        campaign = Campaign(plan, again or config["only"])
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
            if self._display:
                self._display.advice = mending.advice(self._config["rerun_share"])
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
        if self.resources.site:
            check_sections(self.resources.site, products.SUBMITTED_RULES)
        if self._display:
            self._announce(jobs)
            self._display.start(job.wildcards_dict for job in jobs if job.rule.name in products.TRAINING_RULES)

    def finish(self) -> None:
        """Print the results after the last job, if none failed."""
        from trainmark.session.hooks import print_results

        if self._display:  # a module has none
            self._display.stop()
        if mending.is_mending():  # the call that it mends prints the results
            return
        trained, done = self._display.trained if self._display else {}, True
        if self._lock and self._makes_tables and any(trained.values()):
            self._lock.close()
            done = self._mend(trained)
        print_results(self.campaign, self._terminal)
        if not done:
            sys.exit(1)

    def _mend(self, trained: Mapping[str, bool]) -> bool:
        """Train disturbed ones of these runs again. Return whether nothing failed."""
        try:
            return mending.mend(trained, self._config["rerun_share"], self._options(), self._terminal)
        except KeyboardInterrupt:
            print_line("stopped; the same call makes the tables of what is trained by now", self._terminal)
            return False

    @refusing
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
        if mending.is_mending():
            return
        if internals.failed_by_itself(self._workflow) and self._makes_tables and not self._partial:
            self._lock.close()
            if {failure.title for failure in self._display.failures} == {CHECKING_CLAIMS}:
                print_results(self.campaign, self._terminal)
                return
            missing = missing_runs(self.campaign, self._display.failures, self._display.not_trained())
            finish_without(self.campaign, missing, self._options(), self._terminal)

    def _options(self) -> list[str]:
        return options_of_call(self._call.snakefile, list(map(str, self._call.configfiles)))
