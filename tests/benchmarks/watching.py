"""What does watching the machine cost, and how much foreign load does an undisturbed run see?

Run: make bench-watching. Each framework trains the default experiment's network on the digits in a process of its own,
watched as a run is. Printed is the time that watching took by that of the steady epochs, and what the run saw: on a
machine with nothing else to do, the calibration of the limits in machine/disturbance.py. Exit status 1 where watching
costs more than 0.5 %.
"""

import argparse
import multiprocessing
import statistics
import sys
import threading
import time
from pathlib import Path

from trainmark.datasets.formats import digits
from trainmark.frameworks.adapter import Adapter
from trainmark.frameworks.registry import create_adapter
from trainmark.machine.cpus import allowed_cpus
from trainmark.machine.disturbance import disturbance
from trainmark.machine.gpus import limit_threads
from trainmark.machine.watch import Watch
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights

LIMIT = 0.005
SEED = (1, 1)


def built(framework: str, threads: int) -> tuple[Adapter, int, int | None]:
    """(an adapter with data, number of samples, batch size)."""
    recipe = RECIPES["mnist-mlp-keras"]
    images, labels = digits.read({}, {"image_shape": [1, 28, 28], "classes": 10}).splits["train"]
    inputs = images.astype("float32") / 255
    architecture = recipe.architecture(inputs.shape[1:], 10)
    adapter = create_adapter(framework, threads)
    weights = draw_initial_weights(architecture, recipe.initializer, SEED)
    adapter.build(architecture=architecture, weights=weights, optimizer=recipe.optimizer, device="cpu", dtype="float32")
    for split in ("train", "test"):
        adapter.load(split=split, inputs=inputs, labels=labels)
    return adapter, len(labels), recipe.batch_size


def heartbeat_cpu_seconds() -> float:
    """CPU time of the thread that beats."""
    beating = next(thread for thread in threading.enumerate() if thread.name == "heartbeat")
    return int(Path(f"/proc/self/task/{beating.native_id}/schedstat").read_text().split()[0]) / 1e9


def measure(framework: str, epochs: int, repeats: int, results: multiprocessing.Queue) -> None:
    """Put (seconds of the median epoch, share that watching took, [foreign share of each repeat], ever disturbed)."""
    cpus = allowed_cpus()
    limit_threads(cpus)
    adapter, samples, batch_size = built(framework, len(cpus))
    adapter.compile(epoch_feed(samples, batch_size, SEED, 1))
    watch, stretches, seconds, cost_seconds, shares, disturbed = Watch(cpus, None), [], [], 0.0, [], 0
    for _ in range(repeats):
        watch.begin(1)
        stretches = []
        for epoch in range(1, epochs + 1):
            begin = time.perf_counter()
            adapter.train_epoch(epoch_feed(samples, batch_size, SEED, epoch))
            adapter.synchronize()
            trained = time.perf_counter()
            stretches += watch.after(epoch)
            cost_seconds += time.perf_counter() - trained
            seconds.append(trained - begin)
        stretches += watch.after(epochs, force=True)
        held_seconds = sum(one["seconds"] for one in stretches) * len(cpus)
        shares.append(sum(one["foreign_seconds"] for one in stretches) / held_seconds)
        disturbed += disturbance(stretches, len(cpus)) is not None
    cost_share = (cost_seconds + heartbeat_cpu_seconds()) / sum(seconds)
    results.put((statistics.median(seconds), cost_share, shares, disturbed))


def main() -> None:
    """Measure each framework and print a line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10, help="of a repeat")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--frameworks", nargs="+", default=["chainer", "keras-tensorflow", "keras-jax"])
    arguments = parser.parse_args()
    start = multiprocessing.get_context("spawn")
    worst = 0.0
    for framework in arguments.frameworks:
        results = start.Queue()
        process = start.Process(target=measure, args=(framework, arguments.epochs, arguments.repeats, results))
        process.start()
        seconds, share, foreign, disturbed = results.get(timeout=120)
        process.join()
        worst = max(worst, share)
        print(
            f"{framework}: watching takes {share:.2%} of epochs of {seconds * 1e3:.0f} ms; foreign share of "
            f"{arguments.repeats} repeats: {statistics.median(foreign):.2%} in the median, {max(foreign):.2%} at most; "
            f"disturbed: {disturbed}",
            flush=True,
        )
    sys.exit(worst > LIMIT)


if __name__ == "__main__":
    main()
