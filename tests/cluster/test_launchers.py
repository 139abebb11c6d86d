"""Two workers in jobs of a real Slurm, started by srun and by mpiexec: as on this machine, after every fault."""

import time
from importlib.util import find_spec

import pytest
from campaign import Campaign
from harness import AS_ROOT, experiment_of
from same_results import records_of, trained
from schedulers import wait_until

from trainmark.frameworks.registry import known_frameworks

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not find_spec("mpi4py"), reason="mpi4py is not installed (make workers)"),
    pytest.mark.parametrize("cluster", ["slurm"], indirect=True),
]

LAUNCHERS = {
    "srun": [],  # as the profile says
    "mpiexec": [
        "--set-resources",
        "train:mpi=mpiexec --prtemca ras ^slurm --prtemca plm ^slurm --host localhost:2 --bind-to none",
    ],
}
EXPERIMENT = experiment_of(workers=[2], epochs=[400], repeats=3)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """What the runs compute on this machine, without any fault."""
    local = Campaign(tmp_path_factory.mktemp("local") / "campaign", {"experiments": {"shared": EXPERIMENT}}, threads=1)
    local.environment |= AS_ROOT
    local.run("--until", "train")
    return {name: trained(record) for name, record in records_of(local.results).items()}


@pytest.fixture(params=LAUNCHERS)
def shared(request, campaign):
    """A campaign on Slurm whose workers this launcher starts."""
    made = campaign({"experiments": {"shared": EXPERIMENT}}, threads=1)
    made.environment |= AS_ROOT
    made.command += ["--until", "train", *LAUNCHERS[request.param]]
    return made


def same_as(undisturbed, campaign):
    assert {name: trained(record) for name, record in records_of(campaign.results).items()} == undisturbed


def test_jobs_are_cancelled_and_requeued_and_lose_their_controller(shared, cluster, undisturbed):
    scheduler, _ = cluster
    process = shared.start()
    with shared.held(process, ["1"]):
        scheduler.requeue(shared.jobs()["1"])
    with shared.held(process, ["2"]):
        time.sleep(6)  # Slurm saves its state every five seconds
        scheduler.stop_controller()
    time.sleep(20)
    scheduler.start_controller()
    with shared.held(process, ["3"]):
        scheduler.cancel(shared.jobs()["3"])
    assert process.wait(300) == 1, shared.printed
    assert "CANCELLED: somebody cancelled it" in shared.printed
    wait_until(lambda: not shared.trainings(), "the end of all workers", 30)
    shared.run()
    same_as(undisturbed, shared)
    records = records_of(shared.results).values()
    assert {record["run"]["repeat"]: record["resumes"] for record in records} == {1: 1, 2: 0, 3: 1}
    in_order = sorted(records, key=lambda record: record["order"]["position"])
    started = [record["sessions"][0]["started"] for record in in_order]
    assert started == sorted(started)
    for record in records:
        assert record["provenance"]["scheduler"]["name"] == "slurm"
        ranks = [record, *record["other_ranks"]]
        held = [cpu for rank in ranks for cpu in rank["sessions"][-1]["cpus"]]
        assert len(set(held)) == len(held) == 2


def test_every_engine_trains_in_a_job_as_on_this_machine(campaign, tmp_path):
    engines = [name for name, one in known_frameworks().items() if one.engine and not one.missing_packages()]
    experiments = {"experiments": {"shared": EXPERIMENT | {"frameworks": engines, "epochs": [1], "repeats": 1}}}
    in_jobs, local = campaign(experiments, threads=1), Campaign(tmp_path / "local", experiments, threads=1)
    for one in (in_jobs, local):
        one.environment |= AS_ROOT
        one.run("--until", "train")
    same_as({name: trained(record) for name, record in records_of(local.results).items()}, in_jobs)


def test_a_launcher_that_starts_two_worlds_is_refused(campaign, cluster):
    made = campaign({"experiments": {"shared": EXPERIMENT | {"repeats": 1}}}, threads=1)
    made.environment |= AS_ROOT
    printed = made.run("--until", "train", "--set-resources", "train:mpi=srun --mpi=none", status=1)
    assert "the run has 2 workers, and MPI has started 1: start it by mpiexec -n 2" in printed
    assert not list(made.results.rglob("record.json"))
