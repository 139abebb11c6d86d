"""Jobs are submitted once, followed, and their ends explained, with stand-ins for the scheduler's commands."""

import json
import os
import pwd
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.cluster import status as status_module
from trainmark.cluster import submission
from trainmark.cluster.listing import Listing
from trainmark.cluster.schedulers import GRID_ENGINE, SLURM, read_submission, user_name
from trainmark.cluster.site import Site
from trainmark.cluster.status import status
from trainmark.cluster.submission import cancel, submit

RUN = "results/runs/e/r/d/f-cpu/epochs-1/repeat-1"
ONE, OTHER = "0a1b2c3d-4e5f6a7b", "1a1b2c3d-4e5f6a7b"
"""Keys of the run."""

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


def script(key=ONE):
    properties = {
        "rule": "train", "output": [f"{RUN}/{key}/record.json"], "wildcards": {}, "log": [str(LOG)],
        "threads": 2, "resources": {"mem_mb": 4000, "runtime": 240}, "jobid": 1,
    }  # fmt: skip
    file = Path("snakejob.sh")
    file.write_text(f"#!/bin/sh\n# properties = {json.dumps(properties)}\ntrue\n")
    return file


def submitted(listing=None, key=ONE):
    """Submit a job in a call of its own, or in one that has a listing."""
    return submit(script(key), listing or Listing(SLURM), Site())


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
    commands("sbatch", 'echo 17; echo "${CUDA_VISIBLE_DEVICES-unset}" > seen')
    external_id = submitted()
    assert external_id.startswith("17:trainmark-train-")
    (call,) = calls("sbatch")
    assert call.endswith(f".snakemake/cluster/{name_of(external_id)}/job.sh")
    assert "--time=240 --mem=4000M" in call
    assert Path("seen").read_text() == "unset\n"


@pytest.mark.parametrize(
    ("state", "key", "submissions", "cancelled"),
    [
        ("PENDING", ONE, 1, []),
        ("FAILED", ONE, 2, []),
        ("RUNNING", OTHER, 2, ["scancel 17"]),  # of the same run
    ],
)
def test_a_job_of_an_earlier_call_is_found_again(commands, job, capsys, state, key, submissions, cancelled):
    listed(commands, job, state)
    assert (name_of(submitted(key=key)) == name_of(job)) == (key == ONE)
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
        ("sbatch", "echo '17;b'", "Slurm put job 17 onto the cluster b, which squeue here does not list; Slurm"),
        ("squeue", "echo 'squeue: error: down' >&2", "Slurm has not answered for 0.0 minutes"),
        ("sbatch", "echo Welcome", "sbatch printed no id of a job ('Welcome\\n'), and Slurm lists none of this name"),
    ],
)
def test_why_a_job_was_not_submitted_is_in_the_log_of_its_rule(commands, monkeypatch, command, body, sentence):
    monkeypatch.setattr(submission, "NO_ANSWER_SECONDS", 0.05)
    commands(command, body)
    if body is None:
        monkeypatch.setenv("PATH", "/nowhere")
    listing = Listing(SLURM)
    assert submitted(listing) is None
    assert f"ClusterError: {sentence}" in LOG.read_text()
    if "onto the cluster" in sentence:
        assert calls("scancel") == ["scancel --clusters=b 17"]
        assert submitted(listing, OTHER) is None, "no other is submitted"
    assert command == "squeue" or len(calls("sbatch")) == (2 if "exit" in body else 1)


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
    assert submitted(listing, OTHER) != job
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
        ("FAILED", 137, f"started\na\nb\n{SLURMSTEPD}", "OUT_OF_MEMORY: it used more than"),
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
    end = ", which ends with: started / a / b" if exit_status == 127 else ""
    assert f"(job 17; output: {output_of(job)}{end})" in log


def test_a_rule_that_failed_by_itself_keeps_the_last_word_in_its_log(commands, job):
    LOG.parent.mkdir(parents=True)
    LOG.write_text("DataError: the data are damaged\n")
    leave(job, 1)
    listed(commands, job, "FAILED")
    assert failed(job) == "DataError: the data are damaged\n"
    listed(commands, job, "TIMEOUT")
    assert failed(job).startswith("DataError: the data are damaged\n\nClusterError: TIMEOUT: ")


@pytest.mark.parametrize(
    ("squeue", "sacct", "sentence"),
    [
        ("", "exit 1", "LOST: Slurm no longer knows it"),
        ("echo '17|of-somebody|RUNNING|None'", "exit 1", "LOST: Slurm no longer"),  # an id that was given again
        ("echo CLUSTER: main", "echo State; echo OUT_OF_MEMORY", "OUT_OF_MEMORY: it used more"),
        ("", "echo RUNNING", "running"),
        ("", "echo REQUEUED", "running"),
        ("", "echo COMPLETED", "success"),
        ("", "echo 'failed 0'; echo 'exit_status 0'", "success"),
        ("", "echo failed 37", "TIMEOUT: it ran past its time limit of 04:00:00 or used more than its memory (ru_wall"),
        ("", "echo failed 100", "CANCELLED: somebody cancelled it, or it ran past its time limit of 04:00:00 or used"),
    ],
)
def test_a_job_that_vanished_is_lost_after_a_while(commands, job, monkeypatch, squeue, sacct, sentence):
    """Files of other hosts are seen late, and a job that was just submitted is not listed yet."""
    commands("squeue", squeue)
    scheduler = GRID_ENGINE if "failed" in sacct else SLURM
    commands("qstat", "echo '<job_info/>'")
    commands(scheduler.account[0], sacct)
    assert state_of(job, scheduler) == "running"
    monkeypatch.setattr(status_module, "GONE_SECONDS", 0)
    state = state_of(job, scheduler)
    assert sentence in (LOG.read_text() if state == "failed" else state)


QSTAT = """<job_info><queue_info><job_list state="{kind}"><JB_job_number>17</JB_job_number><JB_prior>0.5</JB_prior>
<JB_name>{name}</JB_name><JB_owner>root</JB_owner><state>{state}</state></job_list></queue_info></job_info>"""

OURS = "trainmark-train-4d14ec2b15ba-c339cfab490c"


@pytest.mark.parametrize(
    ("command", "printed", "read"),
    [
        ("sbatch", "17", "17"),
        ("sbatch", "17;main", "17"),
        ("sbatch", "Note: 3 nodes are down\n\n 17 \nBye", "17"),
        ("sbatch", "\nSubmitted batch job 17 on cluster main", "17"),
        ("sbatch", "Your job 17 (\"n\") has been submitted", "17"),
        ("sbatch", "17.1-3:1", "17"),
        ("sbatch", "", None),
        ("sbatch", "Job accepted", None),
        ("sbatch", "5\n17", None),
        ("squeue", "", {}),
        ("squeue", "CLUSTER: main\nJOBID|NAME|STATE|REASON\n\n17|n|RUNNING|None", {"17": ("n", "RUNNING", True)}),
        ("squeue", "Note: see a|b\n 17|a|b|NODE_FAIL|None \nBye", {"17": ("a|b", "NODE_FAIL", False)}),
        ("squeue", f"CLUSTER: a\n17|{OURS}|RUNNING|None\nCLUSTER: b\n17|n|FAILED|", {"17": (OURS, "RUNNING", True)}),
        ("squeue", "17_[1-3]|n|PENDING|Priority", {"17_[1-3]": ("n", "PENDING", True)}),
        ("squeue", "17|n|SPECIAL_EXIT|", {"17": ("n", "SPECIAL_EXIT", True)}),
        ("squeue", f"Warning: job {OURS} exceeds your fair share\n3 nodes are down", {}),
        ("squeue", "17 |n |COMPLETED+ |None |\n18|n|PENDING|Priority|", {
            "17": ("n", "COMPLETED", False), "18": ("n", "PENDING", True),
        }),
        ("squeue", f"17 {OURS} R 0:10", ValueError),
        ("squeue", "17|trainmark-tr", ValueError),
        ("sacct", "", ""),
        ("sacct", "COMPLETED+|", "COMPLETED"),
        ("sacct", "SUSPENDED\nMAINTENANCE", "SUSPENDED"),
        ("sacct", "State\n\nOUT_OF_MEMORY\n", "OUT_OF_MEMORY"),
        ("sacct", "MAINTENANCE at 9\nNODE_FAIL\n CANCELLED by 1000 \n", "CANCELLED"),
        ("sacct", "FAILED to connect", ""),
        ("qstat", "Note\n\n<job_info/>\nBye", {}),
        ("qstat", "Note\n" + QSTAT.format(kind="running", name="n", state="r") + "\nBye", {"17": ("n", "r", True)}),
        ("qstat", QSTAT.format(kind="pending", name="n", state="hqw"), {"17": ("n", "hqw", True)}),
        ("qstat", QSTAT.format(kind="running", name="n", state="r")[:-20], ValueError),
        ("qstat", "error: failed receiving gdi request", ValueError),
        ("qstat", "", ValueError),
        ("qacct", "Note\n\n===\nfailed       0    \nfailed       37  : qmaster enforced\nfailed to say it", "TIMEOUT"),
        ("qacct", "failed       25  : rescheduling\nfailed       100 : assumedly", "CANCELLED"),
        ("qacct", "failed       28  : changing to working directory", "REFUSED"),
        ("qacct", "failed       0    \nexit_status  0     ", "COMPLETED"),
        ("qacct", "failed       0    \nexit_status  0\n===\nfailed       0    \nexit_status  137   (Killed)", ""),
        ("qacct", "", ""),
    ],
)  # fmt: skip
def test_what_a_scheduler_prints_is_read_by_what_its_lines_look_like(command, printed, read):
    """Notes, headers and blank lines are none of its answer. What seems to be cut off is no list of jobs."""
    reader = {
        "sbatch": read_submission, "squeue": SLURM.read_listing, "sacct": SLURM.read_account,
        "qstat": GRID_ENGINE.read_listing, "qacct": GRID_ENGINE.read_account,
    }[command]  # fmt: skip
    if read is ValueError:
        with pytest.raises(ValueError, match=r"trainmark-tr|job_info|error|^$"):
            reader(printed)
    elif isinstance(read, dict):
        assert {key: (one.name, one.state, one.alive) for key, one in reader(printed).items()} == read
    else:
        assert reader(printed) == read


def test_the_user_is_who_the_kernel_says_and_restricts_no_listing(commands, job, monkeypatch):
    for name in ("USER", "LOGNAME", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody")
    assert user_name() == pwd.getpwuid(os.getuid()).pw_name
    monkeypatch.setenv("SQUEUE_PARTITION", "other")
    commands("squeue", f'test "$SQUEUE_PARTITION" || echo "17|{name_of(job)}|PENDING|None"')
    assert submitted() == job
    assert len(calls("sbatch")) == 1


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("RUNNING", "JobHeldUser", None),
        ("PENDING", "Resources", None),
        ("PENDING", "BeginTime", None),
        ("PENDING", "PartitionConfig", "will wait for ever ({}); press Ctrl-C, and let it ask for what a node has"),
        ("PENDING", "QOSMaxWallDurationPerJobLimit", "will wait for ever ({}); press Ctrl-C, and let it ask for what"),
        ("PENDING", "QOSMinGRES", "will wait for ever ({}); press Ctrl-C, and let it ask for what"),
        ("PENDING", "PartitionDown", "waits ({}) until an administrator opens its partition"),
        ("PENDING", "InvalidAccount", "will wait for ever ({}); press Ctrl-C, and correct slurm_account"),
        ("PENDING", "ReservationDeleted", "will wait for ever ({}); press Ctrl-C, and take what is no longer there"),
        ("PENDING", "JobHeldUser", "is held ({}): scontrol release 17 lets it go"),
        ("PENDING", "job requeued in held state", "is held ({}): scontrol release 17 lets it go"),
        ("PENDING", "JobHeldAdmin", "is held by an administrator ({}), who alone can let it go: scontrol release 17"),
        ("PENDING", "launch_failed_requeued_held", "is held, because its node could not start it ({}); when that"),
        ("PENDING", "launch failed requeued held", "is held, because its node could not start it ({}); when that"),
        ("PENDING", "user_env_retrieval_failed_requeued_held", "is held, because its node could not start it ({}); "),
        ("PENDING", "JobHoldMaxRequeue", "is held, because it was requeued too often ({}); when the"),
        ("REQUEUE_HOLD", "None", "is held (Slurm: REQUEUE_HOLD): scontrol release 17 lets it go"),
        ("SPECIAL_EXIT", "held", "is held (Slurm: SPECIAL_EXIT): scontrol release 17 lets it go"),
        ("SUSPENDED", "None", "is suspended (Slurm: SUSPENDED) until an administrator or the scheduler resumes it"),
        ("PENDING", "QOSGrpCpuLimit", "has waited for 5 minutes ({})"),
        ("PENDING", "QOSUsageThreshold", "has waited for 5 minutes ({})"),
        ("PENDING", "ReqNodeNotAvail, UnavailableNodes:a[1-#]", "has waited for 5 minutes ({})"),
        ("COMPLETING", "JobHeldUser", "has waited for 5 minutes (Slurm: COMPLETING)"),
        ("NEW_STATE", "", "has waited for 5 minutes (Slurm: NEW_STATE)"),
        ("qw", None, None),
        ("Rr", None, None),
        ("hqw", None, "is held (Grid Engine: hqw): qrls 17 lets it go"),
        ("hRwq", None, "is held (Grid Engine: hRwq): qrls 17 lets it go"),
        ("Eqw", None, "could not be started by its node (Grid Engine: Eqw); when that is mended (qstat -j 17 says why"),
        ("EhRqw", None, "could not be started by its node (Grid Engine: EhRqw); when that is mended (qstat -j 17 says"),
        ("s", None, "is suspended (Grid Engine: s): qmod -usj 17 lets it go on"),
        ("tS", None, "is suspended (Grid Engine: tS) with its queue, until that goes on"),
        ("dr", None, "has waited for 5 minutes (Grid Engine: dr)"),
    ],
)  # fmt: skip
def test_why_a_job_does_not_run_is_said_once(commands, job, capsys, monkeypatch, state, reason, said):
    """At once if there is something to do, otherwise after some minutes. One that was let go may be stopped again."""
    clock = SimpleNamespace(time=time.time, monotonic=lambda: minutes * 60)
    monkeypatch.setattr(status_module, "time", clock)
    listing = Listing(GRID_ENGINE if reason is None else SLURM)
    minutes_told = []
    for minutes in range(10):
        now = ("r", "RUNNING")[reason is not None] if minutes == 8 else state
        commands("qstat", f"cat << 'EOF'\n{QSTAT.format(kind='', name=name_of(job), state=now)}\nEOF")
        why = reason and reason.replace("#", str(minutes))
        listed(commands, job, now, why)
        monkeypatch.setattr(listing, "_time", 0)
        assert status(job, listing) == "running"
        if err := capsys.readouterr().err:
            minutes_told.append(minutes)
            assert f"job 17 (train) {said}".format(f"Slurm: {why}") in err
    first = [] if said is None else [5] if said.startswith("has waited") else [0]
    assert minutes_told == first + [9] * bool(re.search("release 17|17 lets|could not|too often", said or ""))
