"""Further calls of snakemake, with the options of this one."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

PATH_OPTIONS = {"-s", "--snakefile", "-d", "--directory", "--configfile", "--configfiles"}
"""Options of snakemake whose values are paths."""


def options_of_call(snakefile: str, configfiles: Sequence[str]) -> list[str]:
    """Return the options of this call, with absolute paths.

    Snakemake has changed its working directory to that of --directory, so the paths of its command line may lead
    nowhere now.
    """
    return [
        *without_paths(sys.argv[1:]), "--snakefile", snakefile, *(["--configfile", *configfiles] if configfiles else [])
    ]  # fmt: skip


def without_paths(options: Iterable[str]) -> list[str]:
    """Return a command line of snakemake without PATH_OPTIONS and their values, and without targets after them."""
    kept, is_path = [], False
    for token in options:
        if token.startswith("-"):
            is_path = is_of_paths(token)
        if not is_path:
            kept.append(token)
    return kept


def is_of_paths(option: str) -> bool:
    """Return whether snakemake takes this for one of PATH_OPTIONS: a name may be cut short, a value may follow it."""
    name = option.partition("=")[0]
    is_cut = len(name) > 2 and any(one.startswith(name) for one in PATH_OPTIONS)
    return name != "--config" and (name[:2] in PATH_OPTIONS or is_cut)


def call_again(options: Iterable[str], variables: Mapping[str, str]) -> int:
    """Call snakemake with these options and further environment variables, in this directory; return its exit status.

    Ctrl-C reaches it, too, and a signal that ends this process is passed on; once it has ended, KeyboardInterrupt is
    raised.
    """
    command = [sys.executable, "-m", "snakemake", *options]
    stopped = []
    # No time limit: runs take as long as they take, and each job that ends prints a line.
    with subprocess.Popen(command, env=os.environ | variables, stdin=subprocess.DEVNULL) as process:

        def pass_on(number: int, _: object) -> None:
            stopped.append(number)
            if number == signal.SIGTERM:
                process.terminate()

        before = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    if stopped:
        raise KeyboardInterrupt
    return process.returncode
