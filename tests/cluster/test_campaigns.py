"""Whole campaigns through a real Slurm and a real Grid Engine: equal to local ones, in order, and after every fault."""

import shutil
import signal
import time

import pytest
from campaign import Campaign
from filelock import FileLock
from harness import experiment_of
from same_results import compare, records_of, trained
from schedulers import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

LOOP = {
    "command": "sh -c 'for epoch in $(seq {epochs}); do sleep 0.1; echo loss $epoch; done'",
    "metrics": {"format": "regex", "pattern": r"loss (?P<loss>\d)"},
}
LONG = {"recipes": ["mnist-mlp-flux"], "frameworks": ["chainer"], "devices": ["cpu"], "epochs": [600]}
"""Runs of some seconds, so that a fault meets them."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The long runs, trained on this machine without any fault, once for both schedulers."""
    local = local_run(tmp_path_factory, "undisturbed", long_runs(4), "--until", "train", threads=1)
    return {name: trained(record) for name, record in records_of(local.results).items()} | {"folder": local.results}


def local_run(tmp_path_factory, name, config, *arguments, **options):
    """A campaign on this machine, which one worker of the tests runs, for all."""
    local = Campaign(tmp_path_factory.getbasetemp().parent / name, config, **options)
    with FileLock(local.folder / "lock"):
        local.run(*arguments)
    return local


def long_runs(repeats):
    return {"experiments": {"long": LONG | {"repeats": repeats}}}


@pytest.fixture
def struck(campaign, undisturbed):
    """Makes a campaign that a fault will meet, with the dataset that the undisturbed one has prepared.

    whole: with tables and report.
    """

    def make(config, whole=False, **options):
        made = campaign(config, **options)
        made.command += [] if whole else ["--until", "train"]
        shutil.copytree(undisturbed["folder"] / "datasets", made.results / "datasets")
        return made

    return make


@pytest.fixture(scope="module")
def small_local(tmp_path_factory):
    """A small experiment on this machine, up to its tables, once for both schedulers."""
    experiment = experiment_of(
        frameworks=["chainer", "keras-jax"], epochs=[1, 3], batch_size=400, commands={"loop": LOOP}
    )
    return local_run(tmp_path_factory, "small", {"experiments": {"small": experiment}}, "--until", "collect_records")


def test_a_small_experiment_gives_the_curves_and_tables_of_the_local_run(campaign, small_local):
    on_cluster = campaign(small_local.config)
    assert "run 6 of 6" in on_cluster.run("--until", "collect_records")
    for line in compare(small_local.results, on_cluster.results):
        print(line)
    assert all(record["provenance"]["scheduler"]["job_id"] for record in records_of(on_cluster.results).values())


def test_jobs_that_outlive_a_killed_snakemake_are_found_again(struck, undisturbed):
    outlived = struck(long_runs(3), threads=1)
    process = outlived.start()
    with outlived.held(process, ["1", "2"]):
        process.kill()
        process.wait()
        assert set(outlived.jobs()) == {"1", "2", "3"}
        process = outlived.start()
        wait_until(lambda: outlived.printed.count("of an earlier call is still") == 3 or process.poll(), "three jobs")
    assert process.wait(300) == 0, outlived.printed
    assert "run 3 of 3" in outlived.printed
    for repeat in (1, 2, 3):
        assert outlived.submitted(repeat) == 1
    same_as(undisturbed, outlived)


def same_as(undisturbed, campaign):
    records = records_of(campaign.results)
    assert len(records) == campaign.config["experiments"]["long"]["repeats"]
    for name, record in records.items():
        assert trained(record) == undisturbed[name], name


def test_jobs_that_are_cancelled_or_requeued(struck, cluster, undisturbed):
    """Each failure says why. The next call goes on from the checkpoints, and the curves are those of no fault."""
    scheduler, _ = cluster
    hit = struck(long_runs(4), whole=True, threads=1)
    process = hit.start()
    with hit.held(process, ["1", "2"]):
        jobs = hit.jobs()
        scheduler.cancel(jobs["1"])
        scheduler.requeue(jobs["2"])
    assert process.wait(300) == 1
    printed = hit.printed
    assert "CANCELLED: somebody cancelled it" in printed
    assert "3 of 4 runs are done" in printed
    printed = hit.run()
    assert "1 of 4 runs to train" in printed
    assert "Report: " in printed
    same_as(undisturbed, hit)
    resumes = {record["run"]["repeat"]: record["resumes"] for record in records_of(hit.results).values()}
    assert resumes == {1: 1, 2: 1, 3: 0, 4: 0}


LIMITS = {
    "slurm": ({"runtime": 1}, {"mem_mb": 60}, "OUT_OF_MEMORY: it used more than its 60 MB of memory"),
    "gridengine": ({"others": {"l": "h_rt=0:0:30"}}, {"others": {"l": "h_vmem=250M"}}, "failed: training chainer"),
}
"""Options of the site file by which a run ends for its time and for its memory, and what is said of its memory.

Slurm's shortest time limit is a minute. Grid Engine's h_vmem kills nothing: some call of the process fails.
"""


def test_a_job_that_runs_out_of_time_or_memory_says_so(struck, cluster, undisturbed):
    _, profile = cluster
    hit = struck(long_runs(1), threads=1)
    time_limit, memory_limit, sentence = LIMITS[profile]
    hit.write_site({"options": {"train": time_limit}})
    process = hit.start()
    with hit.held(process, ["1"]):  # it hangs, and the job runs past its limit
        assert process.wait(200) == 1, hit.printed
    assert "TIMEOUT: it ran past its time limit" in hit.printed
    hit.write_site({"options": {"train": memory_limit}})
    printed = hit.run(status=1)
    assert sentence in printed
    hit.write_site({})
    hit.run()
    same_as(undisturbed, hit)
    assert next(iter(records_of(hit.results).values()))["resumes"] >= 1


def test_a_scheduler_that_is_away_for_90_seconds_and_a_node_daemon_that_is_killed(struck, cluster, undisturbed):
    """Jobs end while the controller is away, and others are submitted then; the daemon of the node is killed, too."""
    scheduler, _ = cluster
    hit = struck(long_runs(4), threads=1)
    process = hit.start()
    with hit.held(process, ["1", "2"]):
        time.sleep(6)  # Slurm saves its state every five seconds
        scheduler.kill_node_daemon()
        time.sleep(3)
        scheduler.start_node_daemon()
        scheduler.stop_controller()
    time.sleep(90)
    assert process.poll() is None, hit.printed
    scheduler.start_controller()
    status = process.wait(300)
    assert "does not answer" in hit.printed
    assert "answers again" in hit.printed
    if status:
        hit.run()
    same_as(undisturbed, hit)
    for repeat in (1, 2, 3, 4):
        assert hit.submitted(repeat) == 1


HELD = {
    "slurm": ({"slurm_extra": "--hold"}, "(Slurm: JobHeldUser): scontrol release {}"),
    "gridengine": ({"others": "-h"}, "(Grid Engine: hqw): qrls {}"),
}
"""Options of the site file by which a run is held, and what is said of it."""


def test_a_job_that_waits_when_a_call_is_stopped_does_its_work_without_one(struck, cluster, undisturbed):
    """It is held, and Ctrl-C cannot cancel it, because the controller is away."""
    scheduler, profile = cluster
    options, release = HELD[profile]
    hit = struck(long_runs(1), site={"options": {"train": options}}, threads=1)
    process = hit.start()
    wait_until(lambda: " lets it go\n" in hit.printed, "the advice")
    job = hit.jobs()["1"]
    assert f"is held {release.format(job)} lets it go" in hit.printed
    scheduler.stop_controller()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 1
    assert "did not cancel the jobs" in hit.printed
    scheduler.start_controller()
    scheduler.release(job)
    wait_until(lambda: not hit.jobs(), "the end of the job without a call", 120)
    same_as(undisturbed, hit)
    hit.run()
    assert hit.submitted(1) == 1


@pytest.mark.parametrize("cluster", ["slurm"], indirect=True)
def test_a_cancelled_group_of_runs_loses_none_that_was_done(struck, cluster, undisturbed):
    scheduler, _ = cluster
    grouped = struck(long_runs(3), site={"runs_per_job": 3}, threads=1)
    process = grouped.start()
    with grouped.held(process, ["2"]):
        (output,) = (grouped.results / "logs" / "cluster").glob("*-runs-cpu-0-*.log")
        wait_until(lambda: "1 of 3 steps (33%) done" in output.read_text(), "the end of another run of the group", 180)
        (job,) = (job["id"] for job in scheduler.queue() if "-runs-cpu-0-" in job["name"])
        done = set(records_of(grouped.results))
        scheduler.cancel(job)
        assert process.wait(200) == 1, grouped.printed
    assert "CANCELLED: somebody cancelled it" in grouped.printed
    grouped.run()
    records = records_of(grouped.results)
    by_first_job = {name for name, record in records.items() if record["provenance"]["scheduler"]["job_id"] == job}
    assert by_first_job == done, "these, and no others, were not trained again"
    assert 0 < len(done) < 3
    same_as(undisturbed, grouped)


def test_ctrl_c_cancels_the_jobs(struck, cluster):
    hit = struck(long_runs(3), threads=1)
    process = hit.start()
    with hit.held(process, ["1"]):
        assert len(hit.jobs()) == 3
        process.send_signal(signal.SIGINT)
        assert process.wait(60) != 0
        wait_until(lambda: not hit.jobs(), "the end of the jobs")
    assert "Traceback" not in hit.printed
    assert not records_of(hit.results)
