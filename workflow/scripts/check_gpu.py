"""Check that frameworks compute on the GPU: each trains a step of a small network, and is compared with numpy.

Without --out, every installed framework is checked on every GPU that is visible, each in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

from trainmark.console import redirect_output
from trainmark.errors import DeviceError, failing_in_one_sentence, run_command
from trainmark.files.whole import write_text
from trainmark.frameworks.registry import create_adapter, known_frameworks
from trainmark.machine import gpus, nvml
from trainmark.machine.locks import hold_device

LOGS = Path("results/logs/gpu_check")
"""Folder of the logs and results of the checks of all frameworks."""


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--framework", choices=known_frameworks(), help="check this framework alone")
    parser.add_argument("--threads", type=int, default=1, help="number of CPUs (default: 1)")
    parser.add_argument("--log", type=Path, help="file for the output of the framework (default: the terminal)")
    parser.add_argument("--out", type=Path, help="check in this process on one GPU, and write what was seen as JSON")
    arguments = parser.parse_args()
    if arguments.out and not arguments.framework:
        parser.error("--out needs --framework")
    return arguments


def check_one(arguments: argparse.Namespace) -> None:
    """Lock a GPU, check one framework on it, and write the result."""
    terminal = redirect_output(arguments.log)
    title = f"{arguments.framework} on the GPU"
    with failing_in_one_sentence(title, arguments.log, terminal):
        with hold_device("gpu", arguments.threads, title=title, stream=terminal) as device_lock:
            gpus.limit_threads(device_lock.cpus)
            # imported here because numpy reads its number of threads when it is imported
            from trainmark.training.gpu_check import check_computing

            seen = check_computing(create_adapter(arguments.framework, len(device_lock.cpus)), "gpu")
            seen["gpu"] = nvml.describe(device_lock.gpu or "")
        write_text(arguments.out, json.dumps({"framework": arguments.framework, **seen}, indent=1) + "\n")


def check_all(names: list[str], threads: int) -> None:
    """Check frameworks on every visible GPU and print a line each. Raises DeviceError if one fails."""
    uuids = gpus.visible_gpus()
    if not uuids:
        raise DeviceError(f"there is no GPU to check: {gpus.where_looked()}")
    failed = []
    for uuid in uuids:
        print(describe(uuid), flush=True)
        for name in names:
            if missing := known_frameworks()[name].missing_packages():
                print(f"  {name:17} not checked: {', '.join(missing)} is not installed", flush=True)
            elif not check_in_child(name, uuid, threads):
                failed.append(name)
    if failed:
        raise DeviceError(f"these frameworks do not compute on the GPU: {', '.join(dict.fromkeys(failed))}")


def check_in_child(name: str, uuid: str, threads: int) -> bool:
    """Check one framework on one GPU in a new process, print a line, and return whether it passed."""
    out, log = (LOGS / f"{name}.{kind}" for kind in ("json", "log"))
    options = {"--framework": name, "--threads": str(threads), "--out": str(out), "--log": str(log)}
    command = [sys.executable, __file__, *chain.from_iterable(options.items())]
    variables = os.environ | {"CUDA_VISIBLE_DEVICES": uuid}
    # No time limit: it waits, and says so, while a run holds the GPU.
    child = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
    )
    if child.returncode:
        print(f"  {child.stderr.strip() or f'{name}: ended by status {child.returncode}'}", flush=True)
        return False
    seen = json.loads(out.read_text())
    versions = ", ".join(f"{package} {version}" for package, version in seen["versions"].items())
    print(
        f"  {name:17} {seen['device']['name']}: differs from numpy by {seen['difference']:.1e}, "
        f"{seen['device_memory_mib']:.0f} MiB, {seen['seconds']:.1f} s ({versions})",
        flush=True,
    )
    return True


def describe(uuid: str) -> str:
    """Describe a GPU in one line."""
    gpu = nvml.describe(uuid)
    if "reason" in gpu:
        return f"{uuid}: {gpu['reason']}"
    return (
        f"{gpu['name']} ({uuid}): compute capability {gpu['compute_capability']}, {gpu['memory_mib']} MiB, "
        f"PCI {gpu['pci_bus_id']}, driver {gpu['driver_version']}, CUDA {gpu['cuda_version']}"
    )


def main() -> None:
    """Check one framework, or all."""
    arguments = parse_arguments()
    if arguments.out:
        check_one(arguments)
    else:
        check_all([arguments.framework] if arguments.framework else list(known_frameworks()), arguments.threads)


if __name__ == "__main__":
    run_command(main)
