"""The energy of a run on a GPU; otherwise the reason why it is not measured."""

import pytest

from trainmark.machine import energy
from trainmark.machine.energy import open_meter

GPU = "GPU-0a1b"


def assert_not_measured(meter, reason):
    assert meter.joules() is None
    assert meter.source is None
    assert meter.reason.startswith(reason)


@pytest.fixture
def gpus(monkeypatch):
    """Joules by UUID, which tests change. A GPU that is not in it reports none."""
    joules = {GPU: 1000.0, "GPU-other": 5.0}
    monkeypatch.setattr(energy.nvml, "energy_joules", joules.get)
    described = {"GPU-hidden": {"reason": "NVML can't be started (x)"}}
    monkeypatch.setattr(energy.nvml, "describe", lambda uuid: described.get(uuid, {"name": "Tesla K80"}))
    return joules


def test_a_run_on_a_gpu_is_measured_by_that_gpus_counter_until_it_is_lost(gpus):
    meter = open_meter(GPU)
    assert (meter.source, meter.reason, meter.joules()) == ("nvml", None, 0.0)
    gpus["GPU-other"] += 77.0
    assert meter.joules() == 0.0
    gpus[GPU] += 12.5
    assert meter.joules() == 12.5
    del gpus[GPU]
    assert meter.joules() is None
    gpus[GPU] = 2000.0
    assert_not_measured(meter, "this GPU has no energy counter")


@pytest.mark.parametrize(
    ("parts", "seconds", "coarse"),
    [
        (1, 2.0, False),
        (10, 19.9, True),
        (0, 0.0, False),  # a run that ended before its first part used no energy for training
    ],
)
def test_the_steps_of_a_gpus_counter_are_too_coarse_for_short_parts(gpus, parts, seconds, coarse):
    reason = (
        "the GPU's energy counter steps by 0.1 s, too coarse for a training of less than 2 s between two evaluations"
    )
    assert open_meter(GPU).too_coarse(parts, seconds) == (reason if coarse else None)
    assert open_meter(None).too_coarse(parts, seconds) is None


@pytest.mark.parametrize(
    ("uuid", "reason"),
    [
        ("GPU-old", "this GPU has no energy counter"),
        ("MIG-1", "the run holds an instance of a GPU (MIG), and the counter counts the whole GPU"),
        (None, "the energy of CPUs is not measured"),
        ("GPU-hidden", "NVML can't be started (x)"),  # as NVML says
    ],
)
def test_a_gpu_whose_energy_is_not_known(gpus, uuid, reason):
    gpus["MIG-1"] = 4.0
    assert_not_measured(open_meter(uuid), reason)
