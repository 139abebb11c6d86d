"""Runs of commands with real processes: what they record, and that a wrong or stopped one leaves nothing running."""

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_runs import SETTINGS, processes_of, run_script

from trainmark.commands.process import CommandProcess
from trainmark.commands.program import not_started
from trainmark.commands.run import _check_cpus
from trainmark.errors import CommandError
from trainmark.records.record import read_record

GOOD = "report(1); report(2)"

CSV = {"format": "csv", "file": "log.csv", "columns": {"loss": "loss"}}

WRONG = {
    "exit status 1": ({}, "report(1); sys.exit('the GPU burns')", "exit status 1; its last line: the GPU burns"),
    "ended by a signal": ({}, "os.kill(os.getpid(), 11)", "was ended by SIGSEGV"),
    "a file that is not written": (
        {"metrics": {"format": "chainer-log-report"}},
        GOOD,
        "did not write result/log, but no file",
    ),
    "a file that lies elsewhere": (
        {"metrics": CSV},
        "os.makedirs('out/1'); open('out/1/log.csv', 'w'); open('a', 'w')",
        r"did not write log\.csv, but out/1/log\.csv: name one in metrics\.file, or a pattern",
    ),
    "other files": (
        {"metrics": CSV},
        "for name in 'abcd': open(name, 'w')",
        r"did not write log\.csv, but a, b, c, \.\.\.: name one",
    ),
    "several files that match": (
        {"metrics": CSV | {"file": "*.csv"}},
        "open('1.csv', 'w'); open('2.csv', 'w')",
        r"wrote 1\.csv, 2\.csv, which match metrics\.file, \*\.csv: let it match one",
    ),
    "a folder": ({"metrics": CSV}, "os.mkdir('log.csv')", r"log\.csv is a folder: name a file in it in metrics\.file"),
    "fetched files alone match": ({"metrics": CSV | {"file": "*.py"}}, "", r"did not write \*\.py, but no file"),
    "an output without end": ({}, "while True: print('x' * 10**6)", r"printed more than 100 MiB"),
    "a file without end": (
        {"metrics": CSV},
        "f = open('log.csv', 'w')\nwhile True: f.write('1,' * 10**6)",
        r"log\.csv has more than 100 MiB",
    ),
    "grandchildren that outlive it": (
        {},
        f"if os.fork() == 0: os.setsid(); os.fork(); time.sleep(1000)\n{GOOD}",
        r"left processes at work, which were stopped \(python, python\)",
    ),
    "the guard killed": (
        {},
        "subprocess.Popen(['sleep', '1000'], start_new_session=True); os.kill(os.getppid(), 9); time.sleep(1000)",
        "somebody stopped the process that guards the command",
    ),
    "a container without a runtime": (
        {"image": "image.sif", "command": "true"},
        "",
        "the container image.sif needs apptainer or singularity, and neither is on the PATH",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_command_is_one_sentence_and_leaves_nothing(wrong, tmp_path):
    keys, program, sentence = WRONG[wrong]
    process = run_script(tmp_path, program, **keys)
    printed = process.communicate(timeout=120)[0]
    assert process.returncode == 1
    (line,) = [line for line in printed.splitlines() if "failed" in line]
    assert re.search(sentence, line), line
    assert "Traceback" not in printed
    assert not (tmp_path / "record.json").exists()
    assert processes_of(tmp_path) == []


def made(name: str, content: bytes | None, mode: int = 0o755) -> str:
    """Python that makes a program beside the fetched one, or a folder."""
    write = f"os.mkdir({name!r})" if content is None else f"open({name!r}, 'wb').write({content!r})"
    return f"import os\n{write}\nos.chmod({name!r}, {mode})\n"


ELF = Path(sys.executable).resolve().read_bytes()[:64]
NOT_STARTED = {
    "none": ("no-such-program {epochs}", "", "there is no program no-such-program: write"),
    "a path to none": ("./none", "", "there is no program ./none: write"),
    "a link to none": ("./a", "os.symlink('none', 'a')", "there is no program ./a: write"),
    "not on the PATH": ("program.py", "", r"no program program.py on the PATH: write ./program.py for"),
    "fetched": ("./program.py", "", r"program ./program.py is not executable .* start it as in python ./program.py"),
    "fetched, with a blank": ("'./a b.R'", made("a b.R", b"", 0o644), r": start it as in Rscript './a b\.R'$"),
    "fetched, of unknown kind": ("./a", made("a", b"", 0o644), r"never is\): start it with its interpreter$"),
    "an interpreter that is not": (
        "./a",
        made("a", b"#!/etc/passwd\n"),
        "has an interpreter, /etc/passwd, that is not",
    ),
    "not executable": (
        "./a",
        made("a", b"#!/usr/bin/env -S python3 -u\n", 0o644),
        r"executable .* as in python3 -u ./a",
    ),
    "a program that is not executable": (
        "./a",
        made("a", ELF, 0o644),
        r"executable .* in sh -c 'chmod \+x ./a && ./a'",
    ),
    "a folder": ("./a", made("a", None), "program ./a is a folder: name a program in it"),
    "below a file": ("./program.py/a", "", r"program ./program.py/a can't be started \(Not a directory\)"),
    "no interpreter": ("./a", made("a", b"#! /no/python3\n"), "names the interpreter /no/python3, which is not there"),
    "Windows": ("./a", made("a", b"#!/bin/sh\r\necho\r\n"), "program ./a has the line ends of Windows"),
    "a mark": ("./a", made("a", b"\xef\xbb\xbf#!/bin/sh\n"), "begins with a byte order mark"),
    "without #!": ("./a", made("a", b"import sys\n"), "names no interpreter: .* start it with its interpreter"),
    "empty": ("./a", made("a", b""), "names no interpreter: "),
    "another processor": (
        "./a",
        made("a", ELF[:18] + b"\xff\xff" + ELF[20:]),
        "another system or processor than Linux",
    ),
    "of Windows": ("./a", made("a", b"MZ\x90\0\3\0\0\0"), "was built for another system or processor than Linux"),
    "a long command line": (f"true {'x' * 200_000}", "", r"true can't be started \(Argument list too long\); shorten"),
    "a long name": (f"./{'x' * 300}", "", r"can't be started \(File name too long\); shorten its name"),
}


@pytest.mark.parametrize(("command", "before", "sentence"), NOT_STARTED.values(), ids=NOT_STARTED)
def test_a_program_that_is_not_started_is_told_its_own_cause(command, before, sentence, tmp_path, monkeypatch):
    (tmp_path / "program.py").write_text("")
    subprocess.run([sys.executable, "-c", f"import os\n{before}"], cwd=tmp_path, check=True)
    words = shlex.split(command)
    with pytest.raises(CommandError, match=sentence):
        CommandProcess(words, tmp_path, os.environ, None, None).run()


@pytest.mark.parametrize(
    ("flag", "words"), [(os.ST_NOEXEC, "(a noexec mount): work elsewhere, or"), (0, "may not be executed by you:")]
)
def test_a_program_that_others_may_start_or_none_on_this_mount(tmp_path, monkeypatch, flag, words):
    (tmp_path / "a").write_text("#!/bin/sh\n")
    (tmp_path / "a").chmod(0o755)
    status = os.statvfs_result([*os.statvfs(tmp_path)[:8], flag, 255])
    monkeypatch.setattr(os, "statvfs", lambda _: status)
    monkeypatch.setattr(os, "access", lambda path, _: path == "/bin/sh")
    said = not_started("./a", errno.EACCES, tmp_path, os.defpath)
    assert said.endswith(f"{words} start it as in /bin/sh ./a")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_no_process(number, tmp_path):
    """Also if the command has a child in another session, if both ignore SIGTERM, and if the run itself is killed."""
    ignore = "signal.signal(15, signal.SIG_IGN)\n" if number == signal.SIGTERM else ""
    program = (
        f"{ignore}subprocess.Popen(['sleep', '1000'], start_new_session=True)\n"
        "report(1)\nopen('started', 'w')\ntime.sleep(1000)"
    )
    process = run_script(tmp_path, program)
    while not (tmp_path / "work" / "started").exists():
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    assert len(processes_of(tmp_path)) == 4  # run, guard, command, sleep
    os.kill(process.pid, number)
    printed = process.communicate(timeout=60)[0]
    if number == signal.SIGKILL:  # its guard needs a moment
        deadline = time.monotonic() + 10
        while processes_of(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.05)
    else:
        assert f"stopped by {number.name}; the next snakemake starts it again" in printed
        assert process.returncode == 128 + number
    assert processes_of(tmp_path) == []
    assert not (tmp_path / "record.json").exists()


def recorded(folder, program, **options):
    process = run_script(folder, program, **options)
    printed = process.communicate(timeout=120)[0]
    assert process.returncode == 0, printed
    return read_record(folder / "record.json")


def test_the_record_of_a_command_with_placeholders_and_variables(tmp_path):
    folder = tmp_path / "with a blank"
    folder.mkdir()
    program = (
        "report(1, 0.5, 0.8, 0.3); report(2, 0.25, 0.9, 0.3); report(3, 0.2, 0.95, 0.3)\nopen('model', 'w')\n"
        "print(sys.argv[1:], os.environ['HERE'] == os.getcwd(), os.environ['SEED'])"
    )
    command = "python {folder}/program.py -e {epochs} {device_flag} -t {threads} '{a: 1}' \"two words\""
    record = recorded(
        folder, program, epochs=3, settings=SETTINGS | {"seed": 7}, command=command,
        device_flag={"cpu": "-g -1", "gpu": "-g 0"}, variables={"HERE": "{folder}", "SEED": "{seed}"},
    )  # fmt: skip
    assert record["status"] == "ok" and record["run"]["framework"] == "command"
    assert [entry["batch_loss"] for entry in record["curves"]] == [0.5, 0.25, 0.2]
    assert record["result"]["test_accuracy"] == 0.95 and record["result"]["test_loss"] is None
    for entry in record["curves"][1:]:
        assert 0.29 < entry["seconds"] < 0.6
    assert record["curves"][0]["seconds"] > record["curves"][1]["seconds"]  # it holds the start of Python, too
    assert record["provenance"]["environment"]["kind"] == "venv"
    assert record["provenance"]["versions"]["numpy"]
    assert os.listdir(folder / "work") == ["model"]  # what the command wrote stays, the fetched files do not
    words = "['-e', '3', '-g', '-1', '-t', '1', '{a: 1}', 'two words'] True 7"
    assert words in (folder / "log").read_text()


def test_a_file_that_is_written_anew_with_each_epoch_has_times(tmp_path):
    """A second fit writes to the file of a first one."""
    program = (
        "for fit in (9, 1):\n    text = 'epoch,loss'\n    for epoch in (1, 2, 3):\n        time.sleep(0.3)\n"
        "        text += f'\\n{epoch},{fit / epoch}'\n        open('log.csv', 'w').write(text)"
    )
    record = recorded(tmp_path, program, epochs=3, metrics=CSV | {"columns": {"epoch": "epoch", "loss": "loss"}})
    assert [entry["batch_loss"] for entry in record["curves"]] == [1, 1 / 2, 1 / 3]
    assert all(entry["seconds"] is None or 0.2 < entry["seconds"] < 0.6 for entry in record["curves"][1:])


@pytest.mark.parametrize(
    "pattern", ["outputs/*/*/m*.csv", "**/metrics[[]1].csv", "outputs/2026-11-28/9/metrics[1].csv"]
)
def test_a_metrics_file_in_a_folder_of_the_day_is_found_and_followed(tmp_path, pattern):
    program = (
        "path = 'outputs/2026-11-28/9'\nos.makedirs(path)\nfile = open(path + '/metrics[1].csv', 'w', buffering=1)\n"
        "print('loss', file=file)\nfor loss in (0.5, 0.4, 0.3): time.sleep(0.2); print(loss, file=file)"
    )
    record = recorded(tmp_path, program, epochs=3, metrics=CSV | {"file": pattern})
    assert [entry["batch_loss"] for entry in record["curves"]] == [0.5, 0.4, 0.3]
    for entry in record["curves"][1:]:
        assert 0.15 < entry["seconds"] < 0.5


APPTAINER = """#!/bin/sh
echo "$@" >> calls
[ "$1 $2 $4" = "exec --bind --pwd" ] && cd "$5" && shift 6 && exec "$@"
"""
"""Stands in for apptainer: enters no image."""


def test_a_command_in_a_container(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "apptainer").write_text(APPTAINER)
    (tmp_path / "bin" / "apptainer").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    image = f"docker://host/image@sha256:{'a' * 64}"
    record = recorded(tmp_path, GOOD, image=image)
    environment = record["provenance"]["environment"]
    assert (environment["kind"], environment["name"]) == ("container", "image")
    assert environment["image_digest"] == "a" * 64 and environment["packages"] > 0
    work = tmp_path / "work"
    *_, call = (work / "calls").read_text().splitlines()  # the others asked what the image has
    assert call == f"exec --bind {work} --pwd {work} {image} python program.py"


BOARD = {"metrics": {"format": "tensorboard", "file": "board", "columns": {"loss": "train/loss"}}}


def test_event_files_are_read_by_a_python_that_can(tmp_path):
    """The command's own has neither tensorboard nor TensorFlow here, and trainmark's has TensorFlow."""
    tensorflow = pytest.importorskip("tensorflow")
    event_pb2 = pytest.importorskip("tensorflow.core.util.event_pb2")
    (tmp_path / "board" / "train").mkdir(parents=True)
    with tensorflow.io.TFRecordWriter(str(tmp_path / "board" / "train" / "events.tfevents.1")) as writer:
        for step, value in ((1, {"simple_value": 0.5}), (2, {"tensor": tensorflow.make_tensor_proto(0.25)})):
            values = [{"tag": "loss"} | value, {"tag": "text", "tensor": tensorflow.make_tensor_proto("no number")}]
            event = event_pb2.Event(wall_time=100.0 + 0.05 * step, step=step, summary={"value": values})
            writer.write(event.SerializeToString())
    program = f"import shutil\nshutil.copytree({str(tmp_path / 'board')!r}, 'board')\ntime.sleep(0.1)"
    record = recorded(tmp_path, program, command="/usr/bin/python3 program.py", **BOARD)
    assert [entry["batch_loss"] for entry in record["curves"]] == [0.5, 0.25]


def test_an_event_file_that_is_none_is_one_sentence(tmp_path):
    program = "os.mkdir('board')\nopen('board/tfevents', 'w').write('no event' * 9)"
    process = run_script(tmp_path, program, **BOARD)
    assert "TensorBoard's event files in board can't be read (" in process.communicate(timeout=120)[0]
    assert process.returncode == 1


def test_a_loss_that_becomes_nan_is_a_result(tmp_path):
    record = recorded(tmp_path, "report(1, 2.5); report(2, 'nan'); report(3, 'nan')", epochs=3)
    assert (record["status"], len(record["curves"])) == ("diverged", 2)
    assert record["diverged"] == {"kind": "nan", "epoch": 2, "step": None, "last_finite_loss": 2.5}


def test_exceeding_the_memory_limit_is_a_result(tmp_path):
    program = "subprocess.run([sys.executable, '-c', 'x = bytearray(3 * 10**8); import time; time.sleep(1000)'])"
    record = recorded(tmp_path, program, settings=SETTINGS | {"memory_limit_mib": 200})
    assert record["status"] == "out_of_memory" and record["out_of_memory"]["resident_mib"] > 200
    assert record["curves"] == [] and processes_of(tmp_path) == []


def test_a_command_that_was_stopped_is_disturbed(tmp_path):
    program = "report(1)\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(1)\nreport(2)"
    process = run_script(tmp_path, program)
    file = tmp_path / "work" / "pid"
    while not (file.exists() and file.read_text()):
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)
    os.kill(int(file.read_text()), signal.SIGSTOP)
    time.sleep(1)
    os.kill(int(file.read_text()), signal.SIGCONT)
    assert process.wait(60) == 0
    record = read_record(tmp_path / "record.json")
    assert "stopped" in [cause["cause"] for cause in record["disturbed"]["causes"]]
    assert 0.9 < record["machine"][0]["stopped_seconds"] < 5


def test_a_changed_file_is_refused(tmp_path):
    process = run_script(tmp_path, GOOD)
    (tmp_path / "files" / "program.py").write_text("print('something else')")
    assert "program.py was changed after it was fetched" in process.communicate(timeout=60)[0]


def test_a_command_on_other_cpus_is_refused():
    _check_cpus([{"cpu_seconds": 2.1, "seconds": 1.0}], 2)
    with pytest.raises(CommandError, match=r"4\.0 s of CPU time in 1\.0 s, but holds 2 CPUs: it changed its CPU aff"):
        _check_cpus([{"cpu_seconds": 4.0, "seconds": 1.0}], 2)
