"""Snakemake's generic executor submits jobs in order, from any directory, looks at all, and cancels all."""

import asyncio
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.cluster.executor import SCRIPT, cluster_of, prepare_executor, put_python_on_path
from trainmark.cluster.listing import LISTING
from trainmark.cluster.schedulers import SLURM

SUBMIT = "python workflow/scripts/cluster.py submit slurm"


def workflow(submit=SUBMIT, local=False):
    settings = SimpleNamespace(submit_cmd=submit)
    run, succeeded, failed = [], [], []
    executor = SimpleNamespace(run_jobs=run.extend, report_job_success=succeeded.append, report_job_error=failed.append)
    return SimpleNamespace(
        executor_settings=settings, local_exec=local, rules=[SimpleNamespace(name="train")], _localrules=set(),
        scheduler=SimpleNamespace(_executor=executor), run=run, succeeded=succeeded, failed=failed,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_jobs_are_submitted_by_priority_from_any_directory_and_an_earlier_listing_is_not_used():
    LISTING.parent.mkdir(parents=True)
    LISTING.touch()
    one = workflow()
    prepare_executor(one)
    assert one.executor_settings.submit_cmd == f"{sys.executable} {SCRIPT} submit slurm"
    assert SCRIPT.is_file() and not LISTING.exists()
    jobs = [SimpleNamespace(priority=priority) for priority in (2, 9, 1, 5)]
    one.scheduler._executor.run_jobs(jobs)
    assert [job.priority for job in one.run] == [9, 5, 2, 1]


def test_the_executor_looks_at_its_jobs_in_its_own_process(monkeypatch):
    monkeypatch.setattr("trainmark.cluster.status.status", lambda external_id, scheduler: external_id)
    one = workflow()
    prepare_executor(one)
    jobs = [SimpleNamespace(external_jobid=state) for state in ("running", "success", "failed", "running")]

    async def check():
        return [job async for job in one.scheduler._executor.check_active_jobs(jobs)]

    assert asyncio.run(check()) == [jobs[0], jobs[3]]
    assert (one.succeeded, one.failed) == ([jobs[1]], [jobs[2]])


def test_all_jobs_are_cancelled_even_those_that_the_executor_does_not_list(folder, monkeypatch):
    stand_in = folder / "cluster.py"
    stand_in.write_text("import sys; print(*sys.argv[1:], file=open('called', 'w'))")
    monkeypatch.setattr("trainmark.cluster.executor.SCRIPT", stand_in)
    one = workflow()
    prepare_executor(one)
    one.scheduler._executor.cancel_jobs([])
    assert Path("called").read_text() == "cancel slurm\n"


def test_other_executors_are_left_as_they_are():
    for one in (workflow("qsub -V"), workflow(local=True), workflow(None), workflow("elsewhere.py submit slurm")):
        before = dict(vars(one.executor_settings)), dict(vars(one.scheduler._executor))
        prepare_executor(one)
        assert (vars(one.executor_settings), vars(one.scheduler._executor)) == before
        assert cluster_of(one) is None
    assert cluster_of(workflow())[0] is SLURM


def test_the_python_of_the_workflow_can_be_found(monkeypatch):
    folder = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    put_python_on_path()
    assert os.environ["PATH"] == f"{folder}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", f"/stand-in:{folder}:/bin")
    put_python_on_path()
    assert os.environ["PATH"] == f"/stand-in:{folder}:/bin", "the user's own choice stays"
