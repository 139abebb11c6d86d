"""Further calls of snakemake: their options, and what ends them."""

import os
import signal
import threading

import pytest

from trainmark.session import other_calls


def test_a_further_call_has_the_options_of_this_one_with_absolute_paths(monkeypatch):
    options = ["--configfile", "x", "y", "--cores", "2", "-d", "z", "--directory=z"]
    monkeypatch.setattr("sys.argv", ["/bin/snakemake", *options])
    found = other_calls.options_of_call("/a/Snakefile", ["/b/my.yaml"])
    assert found == ["--cores", "2", "--snakefile", "/a/Snakefile", "--configfile", "/b/my.yaml"]
    assert other_calls.options_of_call("/a/Snakefile", []) == ["--cores", "2", "--snakefile", "/a/Snakefile"]


def test_a_path_is_left_out_however_its_option_is_written():
    assert other_calls.without_paths(["-dz", "--config", "a=b", "--direc", "z", "-s", "z", "-n"]) == [
        "--config",
        "a=b",
        "-n",
    ]


STAND_IN = """#!/bin/sh
trap "echo stopped > stopped; exit 1" TERM
echo "$3 $ASKED" > called
while [ "$3" = waits ]; do sleep 0.1; done
exit 3
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """In place of Python, a script that notes how it is called."""
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "python"
    script.write_text(STAND_IN)
    script.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(script))
    return tmp_path


def test_a_further_call_has_further_variables_and_its_status_is_returned(stand_in):
    assert other_calls.call_again(["ends"], {"ASKED": "a b"}) == 3
    assert (stand_in / "called").read_text() == "ends a b\n"


def test_a_signal_that_ends_this_process_ends_a_further_call_first(stand_in):
    before = signal.getsignal(signal.SIGTERM)
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        other_calls.call_again(["waits"], {})
    assert (stand_in / "stopped").exists()
    assert signal.getsignal(signal.SIGTERM) == before
