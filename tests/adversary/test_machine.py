"""Attacks on the machine beside a workflow: foreign load, a stopped run, a later call, an early clock. Each is named.

Chainer's adapter goes under several names. What is compared is one setting with itself: any verdict would be wrong.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import psutil
import pytest
from harness import copy_of_repository, snakemake, write_config

from trainmark.session import mending
from trainmark.tables.frames import rows_of
from trainmark.tables.numbers import read_numbers

pytestmark = pytest.mark.adversary

TWIN_NAMES = ("one", "two", "early", "slowed", "helped")

ADAPTER = '''"""Chainer's adapter under several names."""

import subprocess
import sys
import time

from trainmark.frameworks.chainer_adapter import ChainerAdapter

FRAMEWORKS = {
    "twin-one": {"packages": ["chainer"], "environment": {}},
    "twin-two": {"packages": ["chainer"], "environment": {}},
    "twin-early": {"packages": ["chainer"], "environment": {}},
    "twin-slowed": {"packages": ["chainer"], "environment": {}},
    "twin-helped": {"packages": ["chainer"], "environment": {}},
}
EARLY_SECONDS = 0.015


def create(framework, threads):
    kinds = {"twin-early": Early, "twin-slowed": Slowed, "twin-helped": Helped}
    return kinds.get(framework, ChainerAdapter)(framework, threads)


class Slowed(ChainerAdapter):
    """It rests after each epoch for as long as it took."""

    def train_epoch(self, feed):
        begin = time.monotonic()
        losses = super().train_epoch(feed)
        time.sleep(time.monotonic() - begin)
        return losses


HELPER = """
import os, sys, time
while os.path.exists(f"/proc/{sys.argv[1]}"):
    end = time.monotonic() + 0.004
    while time.monotonic() < end:
        pass
    time.sleep(0.016)
"""


class Helped(ChainerAdapter):
    """A part of its work is in a process that is no child of it any more, so that it looks like other work."""

    _helper = None

    def train_epoch(self, feed):
        if not self._helper:
            command = f"exec setsid {sys.executable} -c '{HELPER}' $PPID &"
            self._helper = subprocess.run(["sh", "-c", command])
        return super().train_epoch(feed)


class Early(ChainerAdapter):
    """Its device goes on for 15 ms after each epoch, and `synchronize` does not wait for it."""

    _done = 0.0

    def train_epoch(self, feed):
        losses = super().train_epoch(feed)
        self._done = time.monotonic() + EARLY_SECONDS
        return losses

    def weights(self):
        time.sleep(max(self._done - time.monotonic(), 0))
        return super().weights()
'''

BUSY = "while True: pass"

FIFTH_OF_A_CPU = """
import time
while True:
    end = time.monotonic() + 0.004
    while time.monotonic() < end:
        pass
    time.sleep(0.016)
"""

TWINS = {"recipes": ["mnist-mlp-flux"], "frameworks": ["twin-one", "twin-two"], "devices": ["cpu"]}


@pytest.fixture
def folder(tmp_path):
    """A copy of the repository with the twins in it."""
    copy_of_repository(tmp_path)
    (tmp_path / "workflow" / "scripts" / "trainmark" / "frameworks" / "twin_adapter.py").write_text(ADAPTER)
    for name in TWIN_NAMES:
        (tmp_path / "envs" / f"twin-{name}.yaml").write_text("dependencies: [chainer]\n")
    return tmp_path


def workflow(folder, experiments, *arguments, **keys):
    """Run the workflow on these experiments; what it printed."""
    name = write_config(folder, {"experiments": experiments, **keys})
    # Without the search path of the tests, which names the library of the repository, not of its copy.
    process = snakemake(folder, "--cores", "2", "--configfile", name, *arguments, PYTHONPATH="")
    return process.returncode, process.printed


def records(folder):
    """The last record of each run of the folder, by framework, epochs and repeat."""
    found = [json.loads(path.read_text()) for path in sorted((folder / "results" / "runs").rglob("record.json"))]
    return {tuple(one["run"][key] for key in ("experiment", "framework", "epochs", "repeat")): one for one in found}


def verdicts(folder):
    """The rows of the comparisons of training times, by experiment and epochs."""
    table = read_numbers(folder / "results" / "tables" / "numbers.csv")
    rows = table[(table["statistic"] == "ratio") & (table["metric"] == "training_seconds")]
    return {(row["experiment"], row["epochs"]): row for row in rows_of(rows)}


def trainings(folder, word):
    """Processes that train a run of this folder whose id has this part."""
    for process in psutil.process_iter(["cmdline", "cwd"]):
        command = process.info["cmdline"] or []
        here = process.info["cwd"] == str(folder) and any(part.endswith("/train.py") for part in command[1:2])
        if here and word in command[command.index("--run") + 1].split("/"):
            yield process


@contextmanager
def beside(act):
    """Call `act` again and again in a thread while the body runs."""
    over = threading.Event()

    def repeat():
        while not over.wait(0.05):
            act()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def burst(folder, word, spares="nothing"):
    """Where such a run is trained, keep its CPUs busy for a moment, a loop each. spares: those with this variable."""
    for process in list(trainings(folder, word)):
        try:
            cpus = () if spares in process.environ() else process.cpu_affinity()
        except psutil.NoSuchProcess:
            continue
        loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in cpus]
        for loop, cpu in zip(loops, cpus, strict=True):
            os.sched_setaffinity(loop.pid, [cpu])
        time.sleep(0.3)
        for loop in loops:
            loop.kill()
            loop.wait()


EQUALS = TWINS | {"repeats": 7, "epochs": [40]}


def test_bursts_of_foreign_load_on_one_side_of_equals_bear_no_verdict_and_are_named(folder):
    with beside(lambda: burst(folder, "twin-two-cpu")):
        status, printed = workflow(folder, {"loaded": EQUALS}, rerun_share=0)
    assert status == 0, printed[-3000:]
    hit = [repeat for repeat in range(1, 8) if records(folder)["loaded", "twin-two", 40, repeat]["disturbed"]]
    assert len(hit) >= 6
    verdict = verdicts(folder)["loaded", 40]["verdict"]
    # Whether bounds are known depends on the bursts. A busy host may add causes of its own, such as steal.
    disturbed = r"\d of 7 pairs disturbed \(([a-z ]+, )*foreign load(, [a-z ]+)*\)"
    assert re.fullmatch(f"withheld: ({disturbed}|foreign load beside twin-two on cpu in .*)", verdict), verdict
    text = (folder / "results" / "tables" / "summary.txt").read_text()
    assert "7 disturbed" in text or "of 7 disturbed" in text
    page = (folder / "results" / "report" / "index.html").read_text()
    figure = folder / "results/figures/loaded/mnist-mlp-flux/digits/training_time"
    assert "foreign load" in page and "Disturbed" in page
    assert "disturbed run" in figure.with_suffix(".svg").read_text()
    assert "Disturbed" in figure.with_suffix(".caption.txt").read_text()


def test_the_same_call_trains_disturbed_runs_again_and_then_equals_are_not_distinguishable(folder):
    with beside(lambda: burst(folder, "mended", spares=mending.AGAIN_VARIABLE)):
        status, printed = workflow(folder, {"mended": EQUALS})
    assert status == 0, printed[-3000:]
    assert re.search(r"training \d+ of \d+ disturbed runs? again", printed), printed[-3000:]
    row, found = verdicts(folder)["mended", 40], records(folder).values()
    disturbed = sum(bool(one["disturbed"]) for one in found)
    print(f"{row['verdict']}; disturbed: {disturbed} of 14")
    # The tests' machine may have other work, too, which ends the mending: it is named then.
    assert any(one["other_attempts"] and not one["disturbed"] for one in found) or "the other work goes on" in printed
    assert row["verdict"] == "not distinguishable" if disturbed <= 1 else not {"slower", "faster"} & {row["verdict"]}
    assert printed.count("Report: ") == 1


def test_a_slow_down_is_not_excused_by_other_work_whoever_does_it(folder):
    experiments = {name: EQUALS | {"frameworks": ["twin-one", f"twin-{name}"]} for name in ("slowed", "helped")}
    with subprocess.Popen([sys.executable, "-c", FIFTH_OF_A_CPU]) as load:
        status, printed = workflow(folder, experiments, rerun_share=0)
        load.kill()
    assert status == 0, printed[-3000:]
    found = verdicts(folder)
    slowed, helped = found["slowed", 40], found["helped", 40]
    print(slowed["verdict"], slowed["low"], slowed["bounded"], helped["verdict"], helped["bounded"])
    # A busy host may add causes of its own, such as steal.
    assert re.fullmatch(r"slower|withheld: \d of 7 pairs disturbed .*", slowed["verdict"]), slowed["verdict"]
    named = r"foreign load beside twin-helped on cpu in .*|\d of 7 pairs disturbed .*"
    assert re.fullmatch(f"slower|withheld: ({named})", helped["verdict"]), helped["verdict"]


def test_a_stopped_run_is_named_and_trained_again_where_that_is_asked_for(folder):
    experiments = {"stopped": TWINS | {"frameworks": ["twin-one"], "repeats": 1, "epochs": [60]}}
    logs = "results/logs/train/stopped/mnist-mlp-flux/digits/twin-one-cpu/epochs-60/repeat-1/*.log"
    stopped = []

    def stop():
        if not stopped and any("epoch 3:" in log.read_text() for log in folder.glob(logs)):
            for process in trainings(folder, "stopped"):
                os.kill(process.pid, signal.SIGSTOP)
                time.sleep(5)
                os.kill(process.pid, signal.SIGCONT)
                stopped.append(process.pid)

    with beside(stop):
        status, printed = workflow(folder, experiments)
    assert status == 0 and stopped, printed[-3000:]
    key = ("stopped", "twin-one", 60, 1)
    (cause,) = [one for one in records(folder)[key]["disturbed"]["causes"] if one["cause"] == "stopped"]
    assert len(cause["epochs"]) == 1
    assert "it was stopped for " in printed
    status, printed = workflow(folder, experiments, rerun_disturbed=True)
    assert status == 0, printed[-3000:]
    assert printed.count("rerun_disturbed: 1 run disturbed by something else on the machine, to be trained again") == 1
    again = records(folder)[key]["disturbed"] or {"causes": []}
    assert "stopped" not in [one["cause"] for one in again["causes"]], (records(folder)[key]["machine"], printed)


def test_runs_of_a_later_call_with_other_threads_are_named_and_not_ranked_nor_joined(folder):
    first = TWINS | {"frameworks": ["twin-one"], "repeats": 1, "epochs": [2]}
    assert workflow(folder, {"added": first})[0] == 0
    assert "favours none of them" in (folder / "results" / "report" / "index.html").read_text()
    later = TWINS | {"repeats": 1, "epochs": [2, 4]}
    # The runs that are there were trained with other threads, which is no reason to train them again.
    status, printed = workflow(folder, {"added": later}, "--set-threads", "train=1")
    assert status == 0, printed[-3000:]
    assert len({one["sessions"][0]["call"] for one in records(folder).values()}) == 2
    assert "Trained in 2 calls of snakemake, and mixed only within a call: run" in printed
    row = verdicts(folder)["added", 2]
    assert row["verdict"] == "withheld: numbers of CPUs differ in 1 of 1 pairs (1 and 2)"
    assert row["note"].startswith("in 1 of 1 pairs the runs were trained in different calls of snakemake")
    page = (folder / "results" / "report" / "index.html").read_text()
    assert "These runs come from 2 calls of snakemake" in page
    assert "favours none of them" not in page


def test_a_clock_that_stops_15_ms_early_in_each_epoch_fails_the_run(folder):
    experiments = {"early": TWINS | {"frameworks": ["twin-early"], "repeats": 1, "epochs": [10]}}
    status, printed = workflow(folder, experiments)
    assert status != 0
    assert "the device was still working when the clock stopped: in " in printed
    assert records(folder) == {}
