"""Jobs are submitted once, followed, and their ends explained, with stand-ins for the scheduler's commands."""

import json
import os
from pathlib import Path

import pytest

from trainmark.cluster import status as status_module
from trainmark.cluster import submission
from trainmark.cluster.listing import Listing
from trainmark.cluster.schedulers import GRID_ENGINE, SLURM
from trainmark.cluster.site import Site
from trainmark.cluster.status import status
from trainmark.cluster.submission import cancel, submit

RECORD = "results/runs/e/r/d/f-cpu/epochs-1/repeat-1/record.json"
LOG = Path("results/logs/train/run.log")


@pytest.fixture
def commands(tmp_path, monkeypatch):
    """Writes a stand-in for a command; its calls are in `calls`."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(submission, "RETRY_SECONDS", 0.01)

    def write(name, body):
        (folder / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/calls\n{body}\n')
        (folder / name).chmod(0o755)

    write("squeue", "")
    write("sbatch", "echo 17")
    write("scancel", "")
    write("sacct", "exit 1")
    return write


def calls(command):
    return [line for line in Path("calls").read_text().splitlines() if line.split()[0] == command]


def script(settings="one"):
    properties = {
        "rule": "train", "output": [RECORD], "wildcards": {}, "params": {"settings": settings}, "log": [str(LOG)],
        "threads": 2, "resources": {"mem_mb": 4000, "runtime": 240}, "jobid": 1,
    }  # fmt: skip
    file = Path("snakejob.sh")
    file.write_text(f"#!/bin/sh\n# properties = {json.dumps(properties)}\ntrue\n")
    return file


def submitted(listing=None, settings="one"):
    """Submit a job in a call of its own, or in one that has a listing."""
    return submit(script(settings), listing or Listing(SLURM), Site())


def state_of(external_id, scheduler=SLURM):
    """The state of a job, by a new listing."""
    return status(external_id, Listing(scheduler))


def name_of(external_id):
    return external_id.partition(":")[2]


@pytest.fixture
def job(commands):
    """The id of a job that was submitted."""
    return submitted()


def failed(external_id, scheduler=SLURM):
    """What a job that failed leaves in the log of the rule."""
    assert state_of(external_id, scheduler) == "failed"
    return LOG.read_text() if LOG.exists() else ""


def listed(commands, external_id, state, reason="None"):
    commands("squeue", f"echo '17|{name_of(external_id)}|{state}|{reason}'")


def test_a_job_is_submitted_with_its_script(commands, monkeypatch):
    """The GPUs of the submitting shell are not those of the job."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    commands("sbatch", 'echo "17 ${CUDA_VISIBLE_DEVICES-unset}"; echo "${CUDA_VISIBLE_DEVICES-unset}" > seen')
    external_id = submitted()
    assert external_id.startswith("17:trainmark-train-")
    (call,) = calls("sbatch")
    assert call.endswith(f".snakemake/cluster/{name_of(external_id)}/job.sh")
    assert "--time=240 --mem=4000M" in call
    assert Path("seen").read_text() == "unset\n"


@pytest.mark.parametrize(
    ("state", "settings", "submissions", "cancelled"),
    [
        ("PENDING", "one", 1, []),
        ("FAILED", "one", 2, []),
        ("RUNNING", "other", 2, ["scancel 17"]),  # for the same files
    ],
)
def test_a_job_of_an_earlier_call_is_found_again(commands, job, capsys, state, settings, submissions, cancelled):
    listed(commands, job, state)
    assert (name_of(submitted(settings=settings)) == name_of(job)) == (settings == "one")
    assert (len(calls("sbatch")), calls("scancel")) == (submissions, cancelled)
    said = f"job 17 of an earlier call is still {state}; waiting for it"
    assert (said in capsys.readouterr().err) == (submissions == 1)


def test_a_scheduler_that_is_away_for_a_while_is_waited_for(commands, monkeypatch, capsys):
    monkeypatch.setattr(submission._answered, "__defaults__", (0.02,))  # LISTING_SECONDS
    commands("squeue", "test -e back || { touch back; echo 'connect failure' >&2; exit 1; }")
    external_id = submitted()
    assert external_id.startswith("17:")
    said = capsys.readouterr().err
    assert said.count("Slurm does not answer (squeue: connect failure); its jobs go on, and this workflow waits") == 1
    assert "Slurm answers again" in said
    commands("squeue", "exit 1")
    assert state_of(external_id) == "running"


def test_a_job_that_was_taken_although_its_submission_failed_is_not_submitted_twice(commands, job):
    commands("sbatch", f"echo '17|{name_of(job)}|PENDING|None' > taken; echo 'connection lost' >&2; exit 1")
    commands("squeue", "cat taken 2> /dev/null || true")
    assert submitted() == job
    assert len(calls("sbatch")) == 2, "one of each call"


@pytest.mark.parametrize(
    ("command", "body", "sentence"),
    [
        ("squeue", "exit 1", "Slurm has not answered for 0.0 minutes; call snakemake again when it does"),
        ("squeue", None, "there is no command squeue on the PATH: call snakemake on a host from which jobs"),
        ("sbatch", "echo 'bad account' >&2; exit 1", "Slurm refused a job: sbatch: bad account; the command: sbatch"),
    ],
)
def test_why_a_job_was_not_submitted_is_in_the_log_of_its_rule(commands, monkeypatch, command, body, sentence):
    monkeypatch.setattr(submission, "NO_ANSWER_SECONDS", 0.05)
    commands(command, body)
    if body is None:
        monkeypatch.setenv("PATH", "/nowhere")
    assert submitted() is None
    assert f"ClusterError: {sentence}" in LOG.read_text()
    assert command == "squeue" or len(calls("sbatch")) == 2


def test_all_jobs_of_this_folder_that_wait_or_run_are_cancelled(commands, job, capfd):
    cancel(SLURM)
    assert not calls("scancel"), "none is listed"
    ours = name_of(job)
    jobs = {17: (ours, "RUNNING"), 18: ("of-another-folder", "RUNNING"), 19: ("", "PENDING"), 20: (ours, "FAILED")}
    commands("squeue", "\n".join(f"echo '{number}|{name}|{state}|None'" for number, (name, state) in jobs.items()))
    cancel(SLURM)
    assert calls("scancel") == ["scancel 17"]
    commands("squeue", "echo 'connect failure' >&2; exit 1")
    cancel(SLURM)
    said = capfd.readouterr().err
    assert f"Slurm did not cancel the jobs (squeue: connect failure); when it answers: cd {Path.cwd()} && " in said


def test_many_submissions_cost_one_query_and_none_is_made_twice(commands):
    listing = Listing(SLURM)
    job = submitted(listing)
    commands("squeue", "exit 1")
    assert submitted(listing) == job
    assert submitted(listing, "other") != job
    assert len(calls("squeue")) == 1
    assert len(calls("sbatch")) == 2


def leave(external_id, exit_status):
    Path(".snakemake/cluster", name_of(external_id), "exit").write_text(f"{exit_status}\n")


def output_of(external_id):
    return Path("results/logs/cluster", f"{name_of(external_id)}.log")


def test_a_job_that_left_exit_status_0_has_succeeded_whatever_the_scheduler_says(commands, job):
    leave(job, 0)
    commands("squeue", "exit 1")
    assert state_of(job) == "success"
    leave(job, 1)  # of the start before it was requeued
    for state, said in (("REQUEUED", "running"), ("COMPLETED", "success")):
        listed(commands, job, state)
        assert state_of(job) == said


SLURMSTEPD = "slurmstepd: error: Step 17 exceeded memory limit (90 > 60), being killed"


@pytest.mark.parametrize(
    ("state", "exit_status", "output", "sentence"),
    [
        ("TIMEOUT", None, "", "TIMEOUT: it ran past its time limit of 04:00:00"),
        ("OUT_OF_MEMORY", None, "", "OUT_OF_MEMORY: it used more than its 4000 MB of memory"),
        ("PREEMPTED", None, "", "CANCELLED: somebody cancelled it"),
        ("FAILED", None, SLURMSTEPD, "OUT_OF_MEMORY: it used more than"),  # without control groups
        ("FAILED", 127, "before\nstarted\na\nb", "FAILED: it ended with status 127"),  # before its rule began
    ],
)
def test_a_failure_is_explained_in_the_log_of_the_rule(commands, job, state, exit_status, output, sentence):
    output_of(job).write_text(output)
    if exit_status is not None:
        leave(job, exit_status)
    listed(commands, job, state)
    log = failed(job)
    assert log.startswith(f"\nClusterError: {sentence}")
    end = ", which ends with: started / a / b" if exit_status else ""
    assert f"(job 17; output: {output_of(job)}{end})" in log


def test_a_rule_that_failed_by_itself_keeps_the_last_word_in_its_log(commands, job):
    LOG.parent.mkdir(parents=True)
    LOG.write_text("DataError: the data are damaged\n")
    leave(job, 1)
    listed(commands, job, "FAILED")
    assert failed(job) == "DataError: the data are damaged\n"
    listed(commands, job, "TIMEOUT")
    assert failed(job).startswith("DataError: the data are damaged\n\nClusterError: TIMEOUT: ")


@pytest.mark.parametrize("squeue", ["", "echo '17|of-somebody|RUNNING|None'"])  # an id that was given again
def test_a_job_that_vanished_is_lost_after_a_while(commands, job, monkeypatch, squeue):
    """Files of other hosts are seen late, and a job that was just submitted is not listed yet."""
    commands("squeue", squeue)
    assert state_of(job) == "running"
    monkeypatch.setattr(status_module, "GONE_SECONDS", 0)
    assert "LOST: Slurm no longer knows it" in failed(job)


def test_a_job_that_can_never_start_is_told_once(commands, job, capsys):
    listed(commands, job, "PENDING", "PartitionConfig")
    for _ in range(2):
        assert state_of(job) == "running"
    said = capsys.readouterr().err
    assert said.count("job 17 (train) will wait for ever (Slurm: PartitionConfig)") == 1
    listed(commands, job, "PENDING", "Resources")
    assert state_of(job) == "running"
    assert not capsys.readouterr().err


QSTAT = """<job_info><queue_info><job_list state="{kind}"><JB_job_number>17</JB_job_number><JB_prior>0.5</JB_prior>
<JB_name>{name}</JB_name><JB_owner>root</JB_owner><state>{state}</state></job_list></queue_info></job_info>"""


@pytest.fixture
def grid_engine(commands):
    """A job of Grid Engine, and what sets its state (None: it has ended) and its accounting."""
    commands("qstat", "")
    commands("qsub", "echo 17")
    commands("qdel", "")
    external_id = submit(script(), Listing(GRID_ENGINE), Site())

    def set_state(state, accounting="exit 1"):
        xml = QSTAT.format(kind="running", name=name_of(external_id), state=state) if state else "<job_info/>"
        commands("qstat", f"cat << 'EOF'\n{xml}\nEOF")
        commands("qacct", accounting)

    return external_id, set_state


@pytest.mark.parametrize(
    ("ended", "sentence"),
    [("37  : qmaster enforced h_rt, h_cpu, or h_vmem limit", "TIMEOUT"), ("100 : assumedly after job", "CANCELLED")],
)
def test_the_last_entry_of_the_accounting_says_how_a_job_ended(grid_engine, monkeypatch, ended, sentence):
    monkeypatch.setattr(status_module, "GONE_SECONDS", 0)
    external_id, set_state = grid_engine
    set_state("Rr")
    assert state_of(external_id, GRID_ENGINE) == "running"
    set_state(None, f"echo 'failed       25  : rescheduling'; echo 'failed       {ended}'; echo 'exit_status  137'")
    state_of(external_id, GRID_ENGINE)
    assert f"ClusterError: {sentence}: " in failed(external_id, GRID_ENGINE)


def test_a_job_that_the_node_refused_is_taken_out_of_the_queue(grid_engine):
    external_id, set_state = grid_engine
    set_state("Eqw")
    assert "REFUSED: the node could not start it" in failed(external_id, GRID_ENGINE)
    assert calls("qdel") == ["qdel 17"]
