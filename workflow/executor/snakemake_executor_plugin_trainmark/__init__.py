"""Snakemake's executor of the cluster profiles, an executor plug-in: it submits jobs, follows and cancels them.

It is imported by every snakemake that finds it, so it imports the library only when it runs jobs, and then that of the
Snakefile in use.
"""

import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase
from snakemake_interface_executor_plugins.utils import format_cli_arg

CANCEL_SECONDS = 10


@dataclass
class ExecutorSettings(ExecutorSettingsBase):
    """The options of the executor: --trainmark-scheduler."""

    scheduler: Optional[str] = field(  # noqa: UP045 (Snakemake makes an option of the type)
        default=None, metadata={"help": "Name of the scheduler, which is that of its profile", "required": True}
    )


common_settings = CommonSettings(
    non_local_exec=True,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    pass_default_storage_provider_args=True,
    pass_default_resources_args=True,
    pass_envvar_declarations_to_cmd=True,
    auto_deploy_default_storage_provider=False,
)


class Executor(RemoteExecutor):
    """See `RemoteExecutor`."""

    def __post_init__(self) -> None:
        """See `RemoteExecutor`."""
        os.environ.pop("SNAKEMAKE_PROFILE", None)  # a job inherits it, and its own call of snakemake runs locally

    @cached_property
    def _cluster(self) -> tuple[Any, Any]:
        """A listing of the scheduler's jobs, and the site file. Raises ClusterError for an unknown profile."""
        from trainmark.cluster.listing import Listing
        from trainmark.cluster.site import read_site, scheduler_of

        scheduler = scheduler_of(self.workflow.executor_settings.scheduler)
        return Listing(scheduler), read_site(scheduler)

    def get_job_args(self, job: JobExecutorInterface) -> str:
        """See `RemoteExecutor`, whose jobs wait for a folder, too, that goes with this call: later they did nothing."""
        inputs = format_cli_arg("--wait-for-files", list(dict.fromkeys(job.get_wait_for_files())))
        return f"{super(RemoteExecutor, self).get_job_args(job)} {inputs}"

    def get_job_exec_suffix(self, job: JobExecutorInterface) -> str:
        """See `RemoteExecutor`. A scheduler may take other statuses than 0 and 1 for a request."""
        return "exit 0 || exit 1"

    def run_jobs(self, jobs: Sequence[JobExecutorInterface]) -> None:
        """Submit jobs by priority. Snakemake's order within those that it starts at once is arbitrary."""
        super().run_jobs(sorted(jobs, key=lambda job: -job.priority))

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job, or follow that of an earlier call."""
        from trainmark.cluster.submission import submit

        script = self.get_jobscript(job)
        self.write_jobscript(job, script)
        submitted = SubmittedJobInfo(job)
        submitted.external_jobid = submit(Path(script), *self._cluster)
        if submitted.external_jobid:
            self.report_job_submission(submitted)
        else:
            self.report_job_error(submitted)

    async def check_active_jobs(
        self, active_jobs: Sequence[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others."""
        from trainmark.cluster.status import status

        for one in active_jobs:
            state = status(one.external_jobid, self._cluster[0])
            if state == "success":
                self.report_job_success(one)
            elif state == "failed":
                self.report_job_error(one)
            else:
                yield one

    def cancel_jobs(self, active_jobs: Sequence[SubmittedJobInfo]) -> None:
        """Cancel all jobs, in a process that a second Ctrl-C does not reach, and that goes on after CANCEL_SECONDS.

        Snakemake passes on those jobs only whose state it is not just asking for.
        """
        from trainmark.cluster.submission import CANCEL

        command = [sys.executable, str(CANCEL), self.workflow.executor_settings.scheduler]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
        with suppress(subprocess.TimeoutExpired):
            process.wait(CANCEL_SECONDS)
