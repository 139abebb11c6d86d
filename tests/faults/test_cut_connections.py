"""A campaign on a remote machine, a real sshd with another user: whatever is cut, killed or full, nothing is lost.

The clocks and the moments of the cuts are printed:
make test-faults TESTS="-s -n 0 tests/faults/test_cut_connections.py".
"""

import random
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress

import pytest
import same_results
from harness import experiment_of, finish, write_config
from remote_machine import needs_machine, remote_machine

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(1800),
    needs_machine,
]

KEEPING = experiment_of(frameworks=["chainer", "flax"], epochs=[1, 3], repeats=2, keep_weights=True)

CONFIG = {"experiments": {"small": KEEPING}}

RUNS = 8

CUTS = 10


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    with remote_machine(tmp_path_factory.mktemp("machine")) as machine:
        yield machine


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The results of a local call."""
    folder = tmp_path_factory.mktemp("local")
    write_config(folder, CONFIG)
    finish(folder, "--cores", "4", "--configfile", "experiment.yaml")
    return folder / "results"


@pytest.fixture
def folder(tmp_path):
    write_config(tmp_path, CONFIG)
    return tmp_path


def test_run_leaves_the_results_of_a_local_call(machine, local, folder):
    began = time.monotonic()
    done = machine.remote("run", "experiment.yaml", "--folder", "whole", folder=folder)
    print(f"\nfrom nothing to the report here: {time.monotonic() - began:.0f} s")
    check_whole(machine, local, folder, done, done.stdout + done.stderr, "whole")
    began = time.monotonic()
    again = machine.remote("run", "experiment.yaml", "--folder", "whole", folder=folder)
    print(f"the same call again: {time.monotonic() - began:.0f} s")
    assert again.returncode == 0 and "Nothing to be done" in again.stdout, again.stdout + again.stderr


def test_cuts_at_random_moments_change_nothing(machine, local, folder):
    """Connections end while files are copied, .venv is made, runs are trained and results are fetched."""
    seed = random.SystemRandom().randrange(10**6)
    chance, began, ended, cuts = random.Random(seed), time.monotonic(), threading.Event(), Counter()
    print(f"\nseed {seed}")

    def cut(phase):
        if machine.cut():
            cuts[phase] += 1
            print(f"cut after {time.monotonic() - began:5.1f} s, {phase}")

    def cut_now_and_then():
        while not ended.wait(chance.uniform(0, 12)):
            cut("at a random moment")

    thread = threading.Thread(target=cut_now_and_then)
    thread.start()

    def cut_in_phase(line, _):
        phase = line.split()[1] if " copying" in line or " fetching" in line else ""
        if phase and cuts[phase] < 3:
            time.sleep(chance.uniform(0, 0.1))
            cut(phase)

    process, printed = followed(machine, folder, "cut", cut_in_phase)
    ended.set()
    thread.join()
    assert sum(cuts.values()) >= CUTS and cuts["copying"] and cuts["fetching"]
    check_whole(machine, local, folder, process, printed, "cut")


def test_a_crash_and_a_restart_of_the_server_lose_nothing(machine, local, folder):
    """The machine crashes while a run trains; in the next call its server is away for a while."""
    process, _ = followed(machine, folder, "crashed", lambda line, _: "run 2 of" in line and machine.crash())
    assert process.returncode == 1
    status = machine.remote("status", "--folder", "crashed", folder=folder)
    assert "was interrupted" in status.stdout, status.stdout
    timer = threading.Timer(10, machine.start)

    def restart(line, _):
        if re.match(f"run . of {RUNS}", line) and timer.ident is None:
            machine.stop()
            timer.start()

    process, printed = followed(machine, folder, "crashed", restart)
    assert "trying again" in printed
    check_whole(machine, local, folder, process, printed, "crashed")


def test_a_full_disk_loses_nothing(machine, local, folder):
    """The disk of the results is full while runs train; with more of it, the same call goes on."""
    assert machine.remote("run", "experiment.yaml", "--folder", "full", "--prepare", folder=folder).returncode == 0
    results = machine.home / "full" / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=777", "tmpfs", results], check=True)
    try:

        def fill(line, _):
            if "run 2 of" in line:
                with suppress(OSError), (results / "other").open("wb") as file:
                    file.write(bytes(100 << 20))

        process, printed = followed(machine, folder, "full", fill)
        print(f"\n{printed}")
        assert process.returncode == 1 and re.search("(?i)no space left|make room", printed)
        assert "disk full?" in printed and ", line " not in printed  # no traceback
        (results / "other").unlink()
        done = machine.remote("run", "experiment.yaml", "--folder", "full", folder=folder)
        check_whole(machine, local, folder, done, done.stdout + done.stderr, "full")
    finally:
        subprocess.run(["umount", "-l", results], check=True)


def test_ctrl_c_ends_the_following_and_stop_ends_the_call(machine, local, folder):
    process, _ = followed(
        machine, folder, "stopped", lambda line, process: "run 1 of" in line and process.send_signal(signal.SIGINT)
    )
    assert process.returncode == 128 + signal.SIGINT
    assert "a call runs since" in machine.remote("status", "--folder", "stopped", folder=folder).stdout
    stopped = machine.remote("stop", "--folder", "stopped", folder=folder)
    assert stopped.returncode == 0 and "stopped; run goes on from there" in stopped.stdout, stopped.stdout
    assert "was interrupted" in machine.remote("status", "--folder", "stopped", folder=folder).stdout
    assert not (folder / "results").exists()
    done = machine.remote("run", "experiment.yaml", "--folder", "stopped", folder=folder)
    check_whole(machine, local, folder, done, done.stdout + done.stderr, "stopped")


def followed(machine, folder, name, at_line):
    """Run the campaign, and call `at_line(line, process)` at each line. Return the process and what it printed."""
    command, lines = machine.command("run", "experiment.yaml", "--folder", name), []
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=folder, env=machine.environment, **output) as process:
        for line in process.stdout:
            lines.append(line)
            at_line(line, process)
    return process, "".join(lines)


def check_whole(machine, local, folder, done, printed, name):
    """The results are those of a local call, nothing was trained twice, and nothing is left to do."""
    assert done.returncode == 0, printed
    print("\n".join(same_results.compare(local, folder / "results")))
    records = list((folder / "results" / "runs").rglob("record.json"))
    assert len(records) == RUNS and (folder / "results" / "report" / "index.html").exists()
    logs = [file.read_text() for file in (machine.home / name / ".snakemake" / "log").glob("*.log")]
    finished = re.findall(r"^Finished jobid: \d+ \(Rule: (\w+)\)", "".join(logs), re.MULTILINE)
    assert finished.count("train") == RUNS
    assert "Nothing to be done" in finish(folder, "-n", "--cores", "4", "--configfile", "experiment.yaml")
