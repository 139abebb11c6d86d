"""Snakemake's executor of the cluster profiles, an executor plug-in: it submits jobs, follows and cancels them.

It is imported by every snakemake that finds it, so it imports the library only when it runs jobs, and then that of the
Snakefile in use.
"""

import os
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Optional

from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface
from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase


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
    def _cluster(self) -> Any:
        from trainmark.cluster.executor import Cluster

        return Cluster(self.workflow.executor_settings.scheduler)

    def get_job_exec_suffix(self, job: JobExecutorInterface) -> str:
        """See `RemoteExecutor`. A scheduler may take other statuses than 0 and 1 for a request."""
        return "exit 0 || exit 1"

    def run_jobs(self, jobs: Sequence[JobExecutorInterface]) -> None:
        """Submit jobs by priority. Snakemake's order within those that it starts at once is arbitrary."""
        super().run_jobs(sorted(jobs, key=lambda job: -job.priority))

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job, or follow that of an earlier call."""
        script = self.get_jobscript(job)
        self.write_jobscript(job, script)
        submitted = SubmittedJobInfo(job)
        submitted.external_jobid = self._cluster.submit(Path(script))
        if submitted.external_jobid:
            self.report_job_submission(submitted)
        else:
            self.report_job_error(submitted)

    async def check_active_jobs(
        self, active_jobs: Sequence[SubmittedJobInfo]
    ) -> AsyncGenerator[SubmittedJobInfo, None]:
        """Report the jobs that have ended, and yield the others."""
        for one in active_jobs:
            state = self._cluster.status(one.external_jobid)
            if state == "success":
                self.report_job_success(one)
            elif state == "failed":
                self.report_job_error(one)
            else:
                yield one

    def cancel_jobs(self, active_jobs: Sequence[SubmittedJobInfo]) -> None:
        """Cancel all jobs. Snakemake passes on those only whose state it is not just asking for."""
        self._cluster.cancel()
