"""Says why the system did not start a program."""

import errno
import os
import platform
import re
import shlex
import shutil
from pathlib import Path

from trainmark.errors import why

FIRST_BYTES = 1000
"""Bytes in which the first line of a script ends."""

INTERPRETERS = {".py": "python", ".R": "Rscript", ".jl": "julia", ".sh": "sh"}
"""By the suffix of scripts that do not name theirs."""


def not_started(program: str, number: int, folder: Path, path: str) -> str:
    """Return why a program could not be started, and what to do.

    program: as the command names it. number: the number of the system's error. folder: in which the command runs.
    path: its environment variable PATH.
    """
    on_path = None if "/" in program else shutil.which(program, os.F_OK, path)
    file, the_program = Path(on_path or folder / program), f"the program {program}"
    try:
        mode = file.stat().st_mode
        with open(file, "rb") as stream:
            first = stream.readline(FIRST_BYTES)
    except FileNotFoundError:
        return (
            f"there is no program {program}: write it as on this machine's command line, name its environment, or "
            "fetch it as one of the command's files"
        )
    except IsADirectoryError:
        return f"{the_program} is a folder: name a program in it"
    except OSError as error:  # of a folder above it, too
        return f"{the_program} can't be started {why(error)}"
    if "/" not in program and not on_path:
        return f"there is no program {program} on the PATH: write ./{program} for the one in the command's folder"
    words = [words for when, holds, words in _causes(program, file, mode, first) if when == number and holds]
    words.append(f"can't be started {why(OSError(number, os.strerror(number)))}")
    return f"{the_program} {words[0]}"


def _causes(program: str, file: Path, mode: int, first: bytes) -> list[tuple[int, object, str]]:
    """Return causes, the likelier before the others: the error's number, whether it holds, and the words for it.

    mode, first: the file's mode and first line.
    """
    script = re.match(rb"#![ \t]*(\S*)[ \t]*(.*)", first)
    interpreter, options = map(os.fsdecode, script.groups()) if script else (INTERPRETERS.get(file.suffix, ""), "")
    quoted = shlex.quote(program)
    start = re.sub(r"^\S*/env +(-S +)?", "", f"{interpreter} {options.strip()}".strip()) + f" {quoted}"
    start = f"sh -c {shlex.quote(f'chmod +x {quoted} && {quoted}')}" if first.startswith(b"\x7fELF") else start
    start = "start it with its interpreter" if start.startswith(" ") else f"start it as in {start}"
    no_start = os.statvfs(file).f_flag & os.ST_NOEXEC
    elsewhere = "lies where no program is started (a noexec mount): work elsewhere"
    other_system = f"was built for another system or processor than Linux on {platform.machine()}: build it here"
    return [
        (errno.EACCES, not mode & 0o111, f"is not executable (a fetched file never is): {start}"),
        (errno.EACCES, no_start and script, f"{elsewhere}, or {start}"),
        (errno.EACCES, no_start, elsewhere),
        (errno.EACCES, not os.access(file, os.X_OK), f"may not be executed by you: {start}"),
        (
            errno.EACCES,
            script and not os.access(interpreter, os.X_OK),
            f"has an interpreter, {interpreter}, that is not executable: correct its first line",
        ),
        (errno.ENOENT, script and first.endswith(b"\r\n"), "has the line ends of Windows: convert it with dos2unix"),
        (errno.ENOENT, script, f"names the interpreter {interpreter}, which is not there: correct its first line"),
        (errno.ENOENT, True, "was built for a system with another C library: build it here, or name a container"),
        (errno.ENOEXEC, first.startswith(b"\xef\xbb\xbf#!"), "begins with a byte order mark: save it without one"),
        (errno.ENOEXEC, b"\0" in first, other_system),
        (errno.ENOEXEC, True, f"names no interpreter: begin it with one, as in #!/bin/sh, or {start}"),
    ]
