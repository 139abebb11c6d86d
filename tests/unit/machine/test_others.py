"""Which other programs used the CPUs of a run."""

import os
import subprocess
import sys
from contextlib import ExitStack

from trainmark.machine.cpus import allowed_cpus
from trainmark.machine.others import OTHER_JOBS, Process, busiest, running_processes

BUSY = "import time\nprint(1, flush=True)\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
WAITING = "print(1, flush=True)\ninput()"
SECRET = "--password=secret"


def test_other_programs_are_named_but_not_what_a_run_starts_nor_any_argument():
    with ExitStack() as stack:

        def start(code):
            words = [sys.executable, "-c", code, SECRET]
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout.readline() == b"1\n"
            return process

        run, before = start(WAITING), running_processes()
        busy = start(BUSY + "print(1, flush=True)\ninput()")
        assert busy.stdout.readline() == b"1\n"
        after, cpus = running_processes(), allowed_cpus()
        name = next(process.name for (number, _), process in after.items() if number == busy.pid)
        found = {one["name"]: one["cpu_seconds"] for one in busiest(before, after, cpus, run.pid)}
        assert found[name] >= 0.25 and SECRET not in str(found)
        (key,) = [key for key in after if key[0] == busy.pid]
        alone = {one: process for one, process in after.items() if one == key or one[0] == os.getpid()}
        assert busiest({}, alone, cpus, os.getpid()) == [], "its own child"
        assert busiest(before, after, [10**6], run.pid) == [], "it may not use these CPUs"


def test_jobs_of_the_same_workflow_have_one_name_and_small_ones_none(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda number: {0}, raising=False)
    tree = {
        1: Process("systemd", 0, 9.0), 2: Process("snakemake", 1, 8.0), 3: Process("sh", 2, 0.0),
        4: Process("python", 3, 50.0), 5: Process("python", 4, 7.0), 6: Process("python", 2, 3.0),
        7: Process("gcc", 6, 1.0), 8: Process("firefox", 1, 6.0), 9: Process("top", 1, 0.3),
        10: Process("bash", 1, 40.5),
    }  # fmt: skip
    after = {(number, 0.0): process for number, process in tree.items()}
    waited_for = {(10, 0.0): Process("bash", 1, 0.0), (11, 0.0): Process("make", 10, 40.0)}
    before = {(8, 0.0): Process("firefox", 1, 1.0), **waited_for}
    found = busiest(before, after, [0], own=4)
    assert [(one["name"], one["cpu_seconds"]) for one in found] == [("firefox", 5.0), (OTHER_JOBS, 4.0)]
