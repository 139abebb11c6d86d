"""trainmark's executor submits jobs in order, looks at all, and cancels all."""

import asyncio
import shlex
from pathlib import Path
from types import SimpleNamespace

from snakemake_executor_plugin_trainmark import Executor, ExecutorSettings
from snakemake_interface_executor_plugins.executors.real import RealExecutor

from trainmark.cluster import status, submission


class OfTest(Executor):
    """The executor without Snakemake, and what it reports."""

    def __init__(self):
        self.workflow = SimpleNamespace(executor_settings=ExecutorSettings(scheduler="slurm"))
        self.reported = []

    def run_job_pre(self, job):
        pass

    def get_jobscript(self, job):
        return job.name

    def write_jobscript(self, job, script):
        pass

    def report_job_submission(self, submitted):
        self.reported.append(("submitted", submitted.external_jobid))

    def report_job_success(self, one):
        self.reported.append(("success", one.external_jobid))

    def report_job_error(self, one):
        self.reported.append(("failed", one.external_jobid))


def test_jobs_are_submitted_by_priority_and_one_that_is_refused_has_failed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        submission, "submit", lambda script, listing, site: None if script.name == "2" else f"7:{script}"
    )
    executor = OfTest()
    executor.run_jobs([SimpleNamespace(name=str(priority), priority=priority) for priority in (2, 9, 1, 5)])
    assert executor.reported == [("submitted", "7:9"), ("submitted", "7:5"), ("failed", None), ("submitted", "7:1")]


def test_a_job_waits_for_no_file_of_the_call_that_submits_it(tmp_path, monkeypatch):
    """The call may end, and delete its files, before the job starts. Jobs of a group name an input each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(RealExecutor, "get_job_args", lambda self, job: "--target-jobs a:")
    inputs = [f"input {number % 50}" for number in range(150)]
    arguments = OfTest().get_job_args(SimpleNamespace(name="a", get_wait_for_files=lambda: inputs))
    assert shlex.split(arguments) == ["--target-jobs", "a:", "--wait-for-files", *inputs[:50]]
    assert not list(tmp_path.iterdir())


def test_jobs_that_have_ended_are_reported_and_the_others_looked_at_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(status, "status", lambda external_id, listing: external_id)
    executor = OfTest()
    jobs = [SimpleNamespace(external_jobid=state) for state in ("running", "success", "failed", "running")]

    async def check():
        return [job async for job in executor.check_active_jobs(jobs)]

    assert asyncio.run(check()) == [jobs[0], jobs[3]]
    assert executor.reported == [("success", "success"), ("failed", "failed")]


def test_all_jobs_are_cancelled_even_those_that_snakemake_does_not_list(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stand_in = tmp_path / "cancel.py"
    stand_in.write_text("import sys; print(*sys.argv[1:], file=open('called', 'w'))")
    monkeypatch.setattr(submission, "CANCEL", stand_in)
    OfTest().cancel_jobs([])
    assert Path("called").read_text() == "slurm\n"
