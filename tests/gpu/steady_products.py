"""Keeps the GPU busy for ten seconds; prints the joules of NVML's counter and of its power, read ten times a second.

Called by test_gpu_measurements.py with the name of a framework and the UUID of the GPU.
"""

import json
import sys
import threading
import time
from statistics import mean

from one_layer import one_layer_adapter

from trainmark.machine import nvml

SECONDS = 10


def main() -> None:
    """Measure and print."""
    framework, gpu = sys.argv[1:]
    adapter = one_layer_adapter(framework)
    work = adapter.matrix_operation("matmul", 8192, 20)
    work()
    watts, ended = [], threading.Event()

    def sample() -> None:
        while not ended.wait(0.1):
            watts.append(nvml.state(gpu)["power_watts"])

    sampling = threading.Thread(target=sample)
    end = time.monotonic() + 1
    while time.monotonic() < end:  # until the power is steady
        work()
    sampling.start()
    begin, before = time.monotonic(), nvml.energy_joules(gpu)
    while time.monotonic() < begin + SECONDS:
        work()
    seconds, joules = time.monotonic() - begin, nvml.energy_joules(gpu) - before
    ended.set()
    sampling.join()
    print(json.dumps([joules, mean(watts) * seconds]))


if __name__ == "__main__":
    main()
