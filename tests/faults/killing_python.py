"""Stands before `python` on a workflow's PATH: kills jobs at random moments of the phases that a plan names.

The folder KILLS holds a file for each run or cross-evaluation, by its id in the plan, with a line for each kill that
is still to come: signal and phase, and in which call of the phase's function where that is not left to chance.
Functions are wrapped in the job's own process, so that a kill falls where it is meant to.
"""

import os
import random
import runpy
import signal
import sys
import threading
import time
from pathlib import Path

import psutil

ADAPTER_FUNCTIONS = {"training": "train_epoch", "evaluation": "predict"}


def plan_of(job):
    """The file of the kills of a run, by its id, or of the cross-evaluation of a trainer."""
    return Path(os.environ["KILLS"]) / job.replace("/", "+")


def loader_processes():
    """The processes that load images for this one."""
    return [child for child in psutil.Process().children() if "multiprocessing.spawn" in " ".join(child.cmdline())]


def kill_within(seconds, signal_name, note, find_victims=lambda: [psutil.Process()]):
    """Send a process, this one by default, the signal at a random moment of the next `seconds`. Return the thread."""

    def strike():
        time.sleep(random.uniform(0, seconds))
        with open(Path(os.environ["KILLS"]) / "done", "a") as log:
            log.write(f"{note}\n")
        random.choice(find_victims()).send_signal(signal.Signals[signal_name])

    striking = threading.Thread(target=strike, daemon=True)
    striking.start()
    return striking


def kill_inside(owner, name, call, *kill):
    """Kill inside a call of owner.name, counted from 1, at a random moment of the time that the call before it took.

    kill: the arguments of `kill_within` after its first.
    """
    inner = getattr(owner, name)
    calls = [call]
    took_seconds = 0.02

    def wrapped(*arguments, **named):
        nonlocal took_seconds
        calls[0] -= 1
        begin = time.monotonic()
        striking = kill_within(took_seconds, *kill) if calls[0] == 0 else None
        result = inner(*arguments, **named)
        took_seconds = time.monotonic() - begin
        if striking:
            striking.join()  # until the kill comes: the phase is still this one
        return result

    setattr(owner, name, wrapped)


def arm(signal_name, phase, call=None, *, note):
    """Have this process killed in a phase: start, training, evaluation or checkpoint, or removal of weights.

    In the phase loading, one of the processes that load its images is killed.
    """
    from trainmark.frameworks import registry

    create_adapter = registry.create_adapter

    def watched(*arguments, **options):
        adapter = create_adapter(*arguments, **options)
        if phase == "checkpoint":
            module = sys.modules["trainmark.training.run"]
            kill_inside(module, "write_checkpoint", int(call or random.randint(2, 3)), signal_name, note)
        elif phase == "removal":
            module = sys.modules["trainmark.training.cross_evaluation"]
            kill_inside(module, "write_evaluation", int(call), signal_name, note)
        elif phase == "loading":
            kill_inside(adapter, "train_epoch", int(call or random.randint(4, 8)), signal_name, note, loader_processes)
        else:
            # From the fourth call on there is a checkpoint, from which the next call resumes: those before compile,
            # evaluate the fresh model, and train and evaluate the first epoch.
            kill_inside(adapter, ADAPTER_FUNCTIONS[phase], int(call or random.randint(4, 8)), signal_name, note)
        return adapter

    if phase == "start":
        kill_within(1.0, signal_name, note)
    else:
        registry.create_adapter = watched


def stand_in(scripts, prepare):
    """Run the command as python would; for one of these scripts, call `prepare` in its process first."""
    arguments = sys.argv[1:]
    os.environ["PATH"] = os.environ["PATH"].partition(os.pathsep)[2]  # without the folder of this stand-in
    if not arguments or Path(arguments[0]).name not in scripts:
        os.execvp("python", ["python", *arguments])
    sys.argv = arguments
    sys.path[0] = str(Path(arguments[0]).parent.resolve())
    prepare(arguments)
    runpy.run_path(arguments[0], run_name="__main__")


def arm_as_planned(arguments):
    """Arm the next kill of the job that these arguments name, if there is one."""
    job = arguments[arguments.index("--run" if "--run" in arguments else "--job") + 1]
    plan = plan_of(job)
    kills = plan.read_text().splitlines() if plan.exists() else []
    if kills:
        plan.write_text("\n".join(kills[1:]))
        arm(*kills[0].split(), note=f"{kills[0]} {job}")


if __name__ == "__main__":
    stand_in(("train.py", "evaluate.py"), arm_as_planned)
