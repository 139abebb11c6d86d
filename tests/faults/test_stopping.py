"""A whole workflow that is stopped: the next call of snakemake finishes it, without any unlocking."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from harness import (
    calling,
    environment,
    experiment_of,
    finish,
    keyed,
    on_path,
    record_file,
    snakemake,
    snakemake_command,
    wait_for,
    write_config,
)

from trainmark.records.record import read_record

pytestmark = pytest.mark.faults

EPOCHS = 300
"""A few seconds, in which a run is stopped or watched."""

CONFIG = {"experiments": {"stopped": experiment_of(epochs=[EPOCHS], batch_size=400)}}
RUN = f"stopped/mnist-mlp-flux/digits/chainer-cpu/epochs-{EPOCHS}/repeat-1"


def arguments(folder):
    """Of snakemake, up to the record: what comes after it is of no concern here."""
    return "--until", "train", "--cores", "2", "--configfile", write_config(folder, CONFIG)


def has_checkpoint(folder):
    """Whether the run has written one."""
    return any(folder.glob(f"results/runs/{RUN}/*/record.checkpoint/*.npz"))


def is_done(folder):
    """Whether the run has a record."""
    return any(folder.glob(f"results/runs/{RUN}/*/record.json"))


def started(folder, **streams):
    """A snakemake at work, whose run writes a checkpoint after each epoch."""
    here = environment(TRAINMARK_CHECKPOINT_SECONDS="0")
    return subprocess.Popen(snakemake_command(folder, *arguments(folder)), cwd=folder, env=here, **streams)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGKILL,
    ],
    ids=lambda number: number.name,
)
def test_a_stopped_workflow_goes_on_with_the_next_call(tmp_path, number):
    """As Ctrl-C, a batch system, a closed terminal or a lost machine does it: snakemake and its jobs get it alike."""
    process = started(tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    wait_for(lambda: has_checkpoint(tmp_path), process)
    os.killpg(process.pid, number)
    printed = process.communicate(timeout=60)[0]
    assert process.returncode != 0
    if number != signal.SIGKILL:
        assert f"stopped by {number.name}; the next snakemake goes on after the last checkpoint" in printed
    again = snakemake(tmp_path, *arguments(tmp_path))
    assert again.returncode == 0, again.printed[-3000:]
    assert "; resumed once" in again.printed
    record = read_record(file := record_file(tmp_path, RUN))
    assert record["resumes"] == 1
    assert len(record["curves"]) == EPOCHS
    assert not file.with_suffix(".checkpoint").exists()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_training_that_outlives_its_workflow_is_not_repeated(tmp_path, at_once):
    """snakemake alone is killed, and its training goes on: the next call waits for what it leaves, or finds it."""
    process = started(tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: has_checkpoint(tmp_path), process)
    process.kill()
    process.wait()
    if not at_once:
        wait_for(lambda: is_done(tmp_path), process=None)
    finish(tmp_path, *arguments(tmp_path))
    file = record_file(tmp_path, RUN)
    assert read_record(file)["resumes"] == 0
    log = keyed(tmp_path, f"logs/train/{RUN}/*.log")
    assert at_once <= ("done by an earlier process that was still at work" in log.read_text())
    assert not file.with_suffix(".kept.json").exists()
    file.unlink()
    finish(tmp_path, *arguments(tmp_path))
    assert "done by an earlier process" not in log.read_text(), "who asks for another training gets one"


def test_a_second_workflow_in_the_same_directory_is_refused(tmp_path):
    command = snakemake_command(tmp_path, *arguments(tmp_path))
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path, env=environment()
    )
    wait_for((tmp_path / "results" / "plan.json").exists, process)
    second = snakemake(tmp_path, *arguments(tmp_path))
    assert second.returncode != 0
    assert f"another snakemake is at work in {tmp_path}" in second.printed
    assert "Traceback" not in second.printed
    assert process.wait(120) == 0, process.communicate()[0]


def test_a_terminal_that_goes_away_stops_nothing_under_nohup(tmp_path):
    """nohup has it ignore SIGHUP, and what it prints goes nowhere: the workflow finishes."""
    reading, writing = pty.openpty()
    process = subprocess.Popen(
        ["nohup", *snakemake_command(tmp_path, *arguments(tmp_path))],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=writing,
        cwd=tmp_path,
        env=environment(TRAINMARK_CHECKPOINT_SECONDS="0"),
        start_new_session=True,
    )
    os.close(writing)
    threading.Thread(target=read_all, args=(reading, stop := threading.Event()), daemon=True).start()
    wait_for(lambda: has_checkpoint(tmp_path), process=None)
    stop.set()
    os.killpg(process.pid, signal.SIGHUP)
    wait_for(lambda: is_done(tmp_path), process=None)
    process.wait(60)
    record = read_record(file := record_file(tmp_path, RUN))
    assert (record["status"], record["resumes"]) == ("ok", 0)
    assert not file.with_suffix(".kept.json").exists()


def read_all(reading, stop):
    """What a terminal does, until its window is closed."""
    with contextlib.suppress(OSError):  # nobody writes any more
        while not stop.is_set():
            if select.select([reading], [], [], 0.05)[0]:
                os.read(reading, 4096)
    os.close(reading)


@pytest.fixture(scope="module")
def with_paper(tmp_path_factory):
    """A folder with a paper kit, and the arguments of the call that makes it again."""
    folder = tmp_path_factory.mktemp("paper")
    of_call = (
        "paper",
        "--cores",
        "2",
        "--configfile",
        write_config(folder, {"experiments": {"e": experiment_of()}}),
    )
    finish(folder, *of_call)
    return folder, of_call


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_paper_that_is_edited_while_its_kit_is_made_stays_as_edited(with_paper, number):
    folder, of_call = with_paper
    paper, paused = folder / "results" / "paper", folder / f"paused-{number.name}"
    (paper / "own.tex").write_text("before")
    (paper / "numbers.json").unlink()  # it is made again
    path = on_path(folder, calling(Path(__file__).with_name("pausing_python.py")))
    process = subprocess.Popen(
        snakemake_command(folder, *of_call),
        cwd=folder,
        env=environment(PATH=path, PAUSED=str(paused)),
        start_new_session=True,
    )
    wait_for(paused.exists, process)
    for name in ("own.tex", f"{number.name}.tex"):
        (paper / name).write_text("edited")
    os.killpg(process.pid, number)
    assert process.wait(60) != 0
    earlier = {file: file.read_bytes() for file in paper.rglob("*") if file.is_file()}
    assert paper / "numbers.tex" in earlier
    finish(folder, *of_call)
    assert (paper / "numbers.json").exists()
    for file, content in earlier.items():
        assert file.read_bytes() == content
    assert {(paper / name).read_text() for name in ("own.tex", f"{number.name}.tex")} == {"edited"}
