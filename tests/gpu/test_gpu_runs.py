"""Single runs on the GPU: what their records hold, memory that runs out, kills, and two runs that want one GPU."""

import signal

import pytest
from gpu_runs import Runs, installed, largest_difference
from harness import wait_for

from trainmark.records.record import read_record

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(600)]

MEMORY_LIMITS = {
    "chainer": {"CUPY_GPU_MEMORY_LIMIT": str(16 * 2**20)},
    "keras-jax": {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.0001"},
    "keras-torch": {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.0001"},
}
"""Environment variables that leave a framework little memory, so that no test fills the GPU: 14 MiB of 139 GiB."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("runs"))


def test_a_record_shows_the_gpu(runs, framework, gpu, record_property):
    record = runs.train("shown", "mnist-mlp-keras", framework, "gpu", 5)
    assert record["status"] == "ok"
    assert record["result"]["test_accuracy"] > 0.9
    assert record["provenance"]["device"]["kind"] == "gpu"
    assert record["provenance"]["gpu"]["uuid"] == record["sessions"][0]["gpu"]
    state = record["provenance"]["gpu"]["at_start"]
    assert state["clocks_mhz"]["sm"] > 0
    assert state["throttle_reasons"] is not None
    memory_mib = record["memory"]["peak_device_mib"]
    assert 0 < memory_mib < record["provenance"]["gpu"]["memory_mib"]
    record_property("peak memory, MiB", f"{memory_mib:.0f}")
    record_property("energy, J", record["energy"]["training_joules"] or record["energy"]["reason"])
    record_property("SM clock at the start, MHz", state["clocks_mhz"]["sm"])
    record_property("throttled by", ", ".join(state["throttle_reasons"]) or "nothing")
    record_property("steady epoch, s", f"{record['result']['steady_epoch_seconds']:.4f}")
    assert (record["energy"]["source"] == "nvml") == (record["energy"]["training_joules"] is not None)


def test_cpu_and_gpu_learn_the_same(runs, framework, record_property):
    """Without dropout, from the same weights and batches."""
    on_cpu, on_gpu = (runs.train(f"same-{device}", "mnist-mlp-flux", framework, device, 5) for device in ("cpu", "gpu"))
    difference = largest_difference(on_cpu, on_gpu)
    record_property("largest difference of the curves", f"{difference:.1e}")
    assert difference < 1e-3


def test_memory_that_runs_out_is_a_result(runs, framework, record_property):
    if framework not in MEMORY_LIMITS:
        pytest.skip(f"{framework} has no environment variable that limits its memory")
    record = runs.train(
        "memory", "mnist-mlp-keras", framework, "gpu", 1, batch_size="full", environment=MEMORY_LIMITS[framework]
    )
    assert record["status"] == "out_of_memory"
    assert record["out_of_memory"]["phase"] in ("build", "transfer", "compilation", "warm_up", "evaluation")
    record_property("message", record["out_of_memory"]["message"][:120])


@pytest.mark.parametrize("recipe", ["mnist-mlp-keras", "imdb-cnn"])
def test_a_killed_run_resumes(runs, framework, recipe, record_property):
    """The two uninterrupted runs show how much atomic operations, whose order is not fixed, change by themselves."""
    epochs = 30  # the kill has to come before the last
    first, second = (runs.train(f"{name}-{recipe}", recipe, framework, "gpu", epochs) for name in ("first", "second"))
    process, record_file, log = runs.start(f"killed-{recipe}", recipe, framework, "gpu", epochs)
    wait_for(lambda: log.exists() and "epoch 3" in log.read_text(), process, seconds=120)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not record_file.exists(), "it was killed before its end"
    resumed = runs.train(f"killed-{recipe}", recipe, framework, "gpu", epochs)
    assert resumed["resumes"] == 1
    assert len(resumed["curves"]) == epochs
    repeated, after_kill = largest_difference(first, second), largest_difference(first, resumed)
    record_property("largest difference of two uninterrupted runs", f"{repeated:.1e}")
    record_property("after a kill", f"{after_kill:.1e}")
    assert after_kill <= max(100 * repeated, 1e-3 if repeated else 0)


def test_two_runs_wait_for_one_gpu(runs, gpu, monkeypatch, record_property):
    """Both are started at once; the records say when each held the GPU."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpu)
    started = [runs.start(f"shared-{n}", "mnist-mlp-keras", installed()[0], "gpu", 5) for n in (1, 2)]
    for process, *_ in started:
        printed, _ = process.communicate()
        assert process.returncode == 0, printed[-3000:]
    records = [read_record(record) for _, record, _ in started]
    (first, second) = sorted(record["sessions"][0]["held_seconds"] for record in records)
    assert first[1] <= second[0], "not at the same time"
    waits = sorted(record["phases_seconds"]["device_wait"] for record in records)
    record_property("the second waited, s", f"{waits[1]:.1f}")
    assert waits[1] > waits[0]
