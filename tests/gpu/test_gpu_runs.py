"""Single runs on the GPU: the same as on the CPU, memory that runs out, and two runs that want one GPU."""

import pytest
from gpu_runs import installed, largest_difference

from trainmark.records.record import read_record

pytestmark = pytest.mark.gpu

# Less than its weights: if memory runs out while XLA chooses among algorithms, the error is another one.
OF_JAX = {"XLA_CLIENT_MEM_FRACTION": "0.00001"}
OF_TORCH = {"PYTORCH_CUDA_ALLOC_CONF": "per_process_memory_fraction:0.0001"}

MEMORY_LIMITS = {
    "chainer": {"CUPY_GPU_MEMORY_LIMIT": str(16 * 2**20)},
    "flax": OF_JAX,
    "keras-jax": OF_JAX,
    "keras-torch": OF_TORCH,
    "torch": OF_TORCH,
}
"""Environment variables that leave a framework little memory, so that no test fills the GPU: 0.8 and 8 MiB of 80 GB."""


@pytest.mark.timeout(60)
def test_cpu_and_gpu_learn_the_same(runs, framework, record_property):
    """Without dropout, from the same weights and batches."""
    on_cpu, on_gpu = (runs.train(f"same-{device}", "mnist-mlp-flux", framework, device, 5) for device in ("cpu", "gpu"))
    difference = largest_difference(on_cpu, on_gpu)
    record_property("largest difference of the curves", f"{difference:.1e}")
    assert difference < 1e-3


@pytest.mark.timeout(40)
def test_memory_that_runs_out_is_a_result(runs, framework, record_property):
    if framework not in MEMORY_LIMITS:
        pytest.skip(f"{framework} has no environment variable that limits its memory")
    record = runs.train(
        "memory", "mnist-mlp-keras", framework, "gpu", 1, batch_size="full", environment=MEMORY_LIMITS[framework]
    )
    assert record["status"] == "out_of_memory"
    assert record["out_of_memory"]["phase"] in ("build", "transfer", "compilation", "warm_up", "evaluation")
    record_property("message", record["out_of_memory"]["message"][:120])


@pytest.mark.timeout(60)
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
