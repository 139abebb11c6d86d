"""The schedulers that the tests of this folder submit to: make test-cluster."""

import time

import pytest
from campaign import Campaign
from schedulers import GridEngine, Slurm, wait_until

PROFILES = {"slurm": "slurm", "grid_engine": "gridengine"}


def started(scheduler):
    """The scheduler until the tests are over, or a skip."""
    if reason := scheduler.missing():
        pytest.skip(reason)
    with scheduler() as running:
        yield running


@pytest.fixture(scope="session")
def slurm():
    """One node with two CPUs and two GPUs."""
    yield from started(Slurm)


@pytest.fixture(scope="session")
def grid_engine():
    """One node with two slots, and two of each consumable."""
    yield from started(GridEngine)


@pytest.fixture(scope="module", params=PROFILES)
def cluster(request):
    """(scheduler, profile)"""
    return request.getfixturevalue(request.param), PROFILES[request.param]


@pytest.fixture
def campaign(tmp_path, cluster):
    """Makes a campaign on the cluster."""
    scheduler, profile = cluster

    def make(config, name="campaign", **options):
        return Campaign(tmp_path / name, config, scheduler, profile, **options)

    yield make
    for job in scheduler.queue():
        scheduler.cancel(job["id"])
    wait_until(lambda: not scheduler.queue() or time.sleep(1), "an empty queue")
