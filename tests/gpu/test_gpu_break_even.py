"""The Julia benchmark's question: from how many epochs on does the GPU train `mnist-mlp-flux` faster than the CPU?"""

import os

import pytest
from gpu_runs import installed
from gpu_stages import STAND_IN

from trainmark.records.record import read_record

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(90)]

EPOCHS = {"cpu": 6, "gpu": 8} if STAND_IN in os.environ else {"cpu": 20, "gpu": 40}
"""Epochs of the runs from which the fixed part and the part per epoch are taken."""

CONTROL_EPOCHS = 3 if STAND_IN in os.environ else 10
"""Epochs of the run whose time the two parts predict."""

TRAINERS = [
    (name, loop)
    for name, loop in [
        ("torch", "stock"), ("torch", "tuned"), ("flax", "tuned"), ("flax", "stock"), ("chainer", "stock"),
    ]
    if name in installed()
]  # fmt: skip


@pytest.fixture(scope="module")
def on_cpu(runs):
    """The runs on the CPU as (process, record), all started at once: each waits for two CPUs of its own."""
    started = {
        (framework, loop): runs.start(
            f"cpu-{loop}", "mnist-mlp-flux", framework, "cpu", EPOCHS["cpu"], loop=loop, dataset=runs.mnist
        )[:2]
        for framework, loop in TRAINERS
    }
    yield started
    for process, _ in started.values():
        process.kill()
        process.wait()


def parts(record):
    """(fixed seconds, seconds per epoch) of a training; see tables/break_even.py."""
    seconds, epoch_seconds = (record["result"][key] for key in ("training_seconds", "steady_epoch_seconds"))
    return seconds - len(record["curves"]) * epoch_seconds, epoch_seconds


@pytest.mark.parametrize(("framework", "loop"), TRAINERS)
def test_the_break_even_of_cpu_and_gpu(framework, loop, runs, on_cpu, record_property):
    options = {"loop": loop, "dataset": runs.mnist}
    long, control = (
        runs.train(f"gpu-{loop}-{epochs}", "mnist-mlp-flux", framework, "gpu", epochs, **options)
        for epochs in (EPOCHS["gpu"], CONTROL_EPOCHS)
    )
    process, cpu_record = on_cpu[framework, loop]
    printed, _ = process.communicate()
    assert process.returncode == 0, printed[-3000:]
    on_two_cpus = read_record(cpu_record)
    (cpu_fixed, cpu_epoch), (gpu_fixed, gpu_epoch) = parts(on_two_cpus), parts(long)
    record_property("2 CPUs: fixed, s", f"{cpu_fixed:.3f}")
    record_property("2 CPUs: epoch, s", f"{cpu_epoch:.5f}")
    record_property("GPU: fixed, s", f"{gpu_fixed:.3f}")
    record_property("GPU: epoch, s", f"{gpu_epoch:.5f}")
    epochs = (gpu_fixed - cpu_fixed) / (cpu_epoch - gpu_epoch)
    faster = "GPU" if gpu_epoch < cpu_epoch else "CPU"
    record_property("break-even, epochs", f"{epochs:.1f}, then the {faster}" if epochs > 0 else f"none, the {faster}")
    predicted = gpu_fixed + CONTROL_EPOCHS * gpu_epoch
    measured = control["result"]["training_seconds"]
    record_property(f"{CONTROL_EPOCHS} epochs on the GPU, s: predicted", f"{predicted:.3f}")
    record_property("measured", f"{measured:.3f}")
    record_property("disturbed", sum(bool(record["disturbed"]) for record in (on_two_cpus, long, control)))
    assert long["status"] == control["status"] == "ok"
