"""What the remote machine is asked: the text of this file goes to the standard input of its Python.

It is sent alone, so it imports the standard library only, and an old Python runs it until it is refused. What belongs
to a call lies in STATE, a folder in that of the campaign. A call runs while its shell, or a program that the shell
started, holds the lock of a file there; however they end, the system then frees the lock.
"""

import fcntl
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

MARK = "trainmark: "
"""Beginning of the lines that are answers. Others are of log-in scripts."""

STATE = ".remote"

BLOCK = 1 << 16
"""Bytes of the log that are sent at once."""

FOLLOW_SECONDS = 300
"""After so long a process that follows ends: it does not notice that its reader has gone while there is no line."""

# Stopped, it writes no status. `git status` notes the times of the files, so that no run has to compare their content.
WORK = """
trap 'exit 130' INT
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE
python=$1 targets=$2
shift 2
make --silent PYTHON="$python" $targets && {
  PATH="$PWD/.venv/bin:$PATH"
  git -c core.fsmonitor=false status > .remote/git-status 2>&1
  if command -v nvidia-smi > /dev/null; then python workflow/scripts/check_gpu.py; else echo "no GPU: no nvidia-smi"; fi
  [ $# = 0 ] || snakemake "$@"
}
echo $? > .remote/status.part && mv .remote/status.part .remote/status
"""
"""A call: sets up, checks the GPUs, and runs snakemake if it has options."""


def answer(action, arguments):
    """Do what is asked, and write the answers, each a line of JSON."""
    try:
        for facts in ACTIONS[action](**arguments):  # type: ignore[operator]
            print(MARK + json.dumps(facts), flush=True)
    except OSError as error:
        print(MARK + json.dumps({"error": "{}: {}".format(error.filename or arguments["folder"], error.strerror)}))


def look(folder):
    """Tell what the machine has, and what is in the folder."""
    path = above = os.path.abspath(os.path.join(os.path.expanduser("~"), os.path.expanduser(folder)))
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    modules = [name for name in ("venv", "ensurepip") if not importlib.util.find_spec(name)]
    yield dict(
        _state(path),
        path=path,
        python=platform.python_version(),
        executable=sys.executable,
        lacking=[name for name in ("rsync", "make") if not shutil.which(name)] + modules,
        is_usable=os.path.isdir(above) and os.access(above, os.W_OK | os.X_OK),
        is_free=not os.path.isdir(path) or not os.listdir(path) or STATE in os.listdir(path),
    )


def note(folder, name, text):
    """Write a file of the state, unless it is there."""
    os.makedirs(folder, exist_ok=True)
    os.makedirs(os.path.join(folder, STATE), mode=0o700, exist_ok=True)
    if not _read(folder, name):
        with open(os.path.join(folder, STATE, name), "w") as file:
            file.write(text)
    yield _state(folder)


def start(folder, call, words):
    """Start a call that outlives the connection, unless one runs. words: the arguments of WORK."""
    state = os.path.join(folder, STATE)
    with open(os.path.join(state, "lock"), "w") as lock:
        for _ in range(50):  # whoever looks holds the lock for a moment
            if _locks(lock, fcntl.LOCK_EX):
                _launch(folder, state, call, words, lock)
                break
            time.sleep(0.1)
    yield _state(folder)


def _launch(folder, state, call, words, lock):
    for name in ("status", "fetched", "call.json"):
        if os.path.exists(os.path.join(state, name)):
            os.remove(os.path.join(state, name))
    with open(os.path.join(state, "log"), "w") as log:
        # No time limit: trainings take as long as they take.
        process = subprocess.Popen(
            ["sh", "-c", WORK, "work", *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[lock.fileno()],
            start_new_session=True,
        )
    call = dict(call, host=platform.node(), started=time.strftime("%Y-%m-%d %H:%M:%S"), pid=process.pid)
    with open(os.path.join(state, "call.part"), "w") as file:
        json.dump(call, file)
    os.rename(file.name, os.path.join(state, "call.json"))


def follow(folder, offset):
    """Send the log from an offset on, in whole lines, until the call ends."""
    end = time.monotonic() + FOLLOW_SECONDS
    with open(os.path.join(folder, STATE, "log"), "rb") as log:
        while True:
            goes_on = _runs(folder) and time.monotonic() < end
            log.seek(offset)
            new = log.read(BLOCK)
            new = new[: new.rfind(b"\n") + 1] if goes_on and (b"\n" in new or len(new) < BLOCK) else new
            offset += len(new)
            if new:
                yield {"text": new.decode("utf-8", "replace"), "offset": offset}
            elif not goes_on:
                break
            else:
                time.sleep(0.5)
    yield _state(folder)


def stop(folder):
    """Interrupt the call as Ctrl-C does, if it runs on this host."""
    call = _state(folder)["call"]
    if _runs(folder) and call.get("host") == platform.node():
        os.killpg(call["pid"], signal.SIGINT)
    yield dict(_state(folder), node=platform.node())


def _state(folder):
    log = os.path.join(folder, STATE, "log")
    size = os.path.getsize(log) if os.path.exists(log) else 0
    return {
        "owner": _read(folder, "owner"),
        "call": json.loads(_read(folder, "call.json") or "{}"),
        "running": _runs(folder),
        "status": _read(folder, "status").strip(),
        "fetched": bool(_read(folder, "fetched")),
        "last_line": _read(folder, "log", max(0, size - BLOCK)).rstrip().rpartition("\n")[2],
        "log_bytes": size,
        "has_results": os.path.isdir(os.path.join(folder, "results")),
    }


def _read(folder, name, offset=0):
    try:
        with open(os.path.join(folder, STATE, name), "rb") as file:
            file.seek(offset)
            return file.read().decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _runs(folder):
    try:
        with open(os.path.join(folder, STATE, "lock")) as lock:
            return not _locks(lock, fcntl.LOCK_SH)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _locks(file, kind):
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


ACTIONS = {"look": look, "note": note, "start": start, "follow": follow, "stop": stop}
