"""A campaign on a remote machine: copies it there, starts and follows it, and fetches its results."""

import platform
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.specifiers import SpecifierSet

from trainmark.config.load import REPOSITORY
from trainmark.errors import DataError, RemoteError
from trainmark.machine.locks import hold_directory
from trainmark.plan.products import CHECKED_CLAIMS, REPORT_FILES, RESULTS
from trainmark.remote.call import Call, code_files, write_commit
from trainmark.remote.connection import Connection
from trainmark.remote.there import STATE

KEPT = ("runs", "certificates", "evaluations", "tuning")
"""Folders of results whose paths say what they are. They are taken along, and are not made again there."""

LEFT_OUT = ("--exclude=/datasets", "--exclude=/compiled", "--exclude=*.checkpoint", "--exclude=*.part")
"""Results that are not copied: large ones, which are made again where they are needed, and unfinished ones."""


class RemoteCampaign:
    """The campaign of the working directory, in a folder of a remote machine. Its methods raise RemoteError.

    folder: there; a relative one starts from the home folder.
    """

    def __init__(self, connection: Connection, folder: str) -> None:
        self._there = connection
        self._owner = f"{platform.node()}:{Path.cwd()}"
        self._followed: dict = {}  # the call there, once this one has started or found it
        self._offset = 0
        self._facts = connection.tell("look", folder=folder)
        self._path = self._facts["path"]
        self._place = f"{connection.address}:{self._path}"

    def run(self, call: Call, *, prepares: bool) -> int:
        """Do what is left of a call: copy, set up, train, fetch. Return the exit status of snakemake there.

        Whatever ends it, the same call goes on from there. It does so by itself when the connection is lost.

        prepares: only set up.
        """
        _check_results()
        facts, failures = self._facts, 0
        while True:
            try:
                facts = facts or self._there.tell("look", folder=self._path)
                failures = 0
                return self._attempt(facts, call, prepares)
            except RemoteError as error:
                if not error.is_lost:
                    raise
                if not failures:
                    print(f"{error}; trying again, until Ctrl-C", flush=True)
                facts, failures = {}, failures + 1
                time.sleep(min(2**failures, 60))

    def status(self) -> str:
        """Return what happens there, in a line or two."""
        if not self._facts["call"]:
            return f"{self._place}: no call was started there"
        last = f"\nlast line: {self._facts['last_line']}" if self._facts["last_line"] else ""
        return f"{self._place}, the campaign of {self._facts['owner']}: {_what(self._facts)}{last}"

    def stop(self) -> str:
        """Stop the call that runs there as Ctrl-C would, and return a sentence about it."""
        self._refuse_other_owner(self._facts)
        if not self._facts["running"]:
            return f"{self._place}: nothing runs there"
        facts = self._there.tell("stop", folder=self._path)
        if facts["running"] and facts["call"]["host"] != facts["node"]:
            raise RemoteError(f"{self._place}: {_what(facts)}, and this is {facts['node']}; name that host")
        self._offset = self._facts["log_bytes"]
        self._follow()
        return f"{self._place}: stopped; run goes on from there"

    # --- the steps --------------------------------------------------------------------------------------------------

    def _attempt(self, facts: Mapping, call: Call, prepares: bool) -> int:
        self._refuse_other_owner(facts)
        if not self._followed:
            facts = self._begin(facts, call, prepares)
            self._followed = facts["call"]
        facts = self._follow()
        if facts["call"] != self._followed:
            raise RemoteError(f"{self._place}: another call was started there meanwhile; call again")
        if facts["has_results"] and not prepares:
            self._fetch(call.experiments)
        if not facts["status"]:
            raise RemoteError(f"{self._place}: {_what(facts)}; the same call goes on from there")
        self._there.tell("note", folder=self._path, name="fetched", text="yes")
        return int(facts["status"])

    def _begin(self, facts: Mapping, call: Call, prepares: bool) -> Mapping:
        """Start the call, unless it runs there, or has ended there and was not fetched yet."""
        words = [facts["executable"], " ".join(call.targets), *([] if prepares else call.options)]
        planned = {"config": call.config, "code": call.code, "options": words}
        is_to_fetch = not _differing(facts, planned) and facts["status"] and not facts["fetched"]
        if facts["running"] or is_to_fetch:
            print(f"{self._place}: {_what(facts)}", flush=True)
        else:
            self._refuse_machine(facts)
            self._copy(call)
            facts = self._there.tell("start", folder=self._path, call=planned, words=words)
            print(f"{self._place}: started", flush=True)
        if differing := _differing(facts, planned):
            raise RemoteError(
                f"{self._place}: what runs there has other {' and '.join(differing)}; wait for it, or call stop"
            )
        return facts

    def _copy(self, call: Call) -> None:
        """Copy code, config, what it names, and results. What has not changed keeps its time, by which make goes."""
        self._refuse_other_owner(self._there.tell("note", folder=self._path, name="owner", text=self._owner))
        print(f"{self._place}: copying {', '.join(['the code', *call.files])}", flush=True)
        self._there.send(["./"], self._path, "-c", "--from0", "--files-from=-", given=code_files(), cwd=REPOSITORY)
        with TemporaryDirectory() as folder:
            write_commit(Path(folder, "git"))
            self._there.send(["git/"], f"{self._path}/.git", "-c", "--delete", cwd=Path(folder))
        if call.files:
            self._there.send(call.files, self._path, "-tRL", "--partial", "--delete", cwd=Path.cwd())
        made = [f"{kind}/{experiment}" for kind in KEPT for experiment in call.experiments]
        # The plan has the secret that chooses audited runs.
        if kept := [name for name in (*made, "peaks", "plan.json") if Path(RESULTS, name).exists()]:
            self._there.send(kept, f"{self._path}/{RESULTS}", "-tR", "--ignore-existing", *LEFT_OUT, cwd=Path(RESULTS))

    def _follow(self) -> dict:
        """Print the lines of the call there until it ends, and return its state."""
        while True:
            for facts in self._there.ask("follow", folder=self._path, offset=self._offset):
                if "text" in facts:
                    self._offset = facts["offset"]
                    print(facts["text"], end="", flush=True)
            if not facts["running"]:
                return facts

    def _fetch(self, experiments: Sequence[str]) -> None:
        """Fetch the results of experiments, but LEFT_OUT. Raises DataError rather than replace a run."""
        source, target = f"{self._path}/{RESULTS}", f"{RESULTS}/"
        chosen = [f"--include=/{kind}/{experiment}" for kind in KEPT for experiment in experiments]
        chosen += [f"--exclude=/{kind}/*" for kind in KEPT]
        Path(target).mkdir(exist_ok=True)
        with hold_directory(Path.cwd()):
            records = ("--existing", "--include=*/", "--include=record.json", "--exclude=*")
            names = self._there.fetch(source, target, "-cn", *chosen, *records)
            if runs := [name for name in names if name.endswith("record.json")]:
                raise DataError(
                    f"{len(runs)} runs were trained there and here, such as {runs[0]}; move {target} away and call "
                    "again, which fetches those of there; merge.py joins both"
                )
            print(f"{self._place}: fetching {target}", flush=True)
            for file in (Path(CHECKED_CLAIMS), *Path(REPORT_FILES[0]).parent.glob("made_*")):
                file.unlink(missing_ok=True)  # they say something of files that are replaced
            names = self._there.fetch(source, target, "-t", *LEFT_OUT, *chosen)
        if REPORT_FILES[0].removeprefix(target) in names:
            print(f"Report: {Path(REPORT_FILES[0]).resolve()}", flush=True)

    # --- what is refused --------------------------------------------------------------------------------------------

    def _refuse_other_owner(self, facts: Mapping) -> None:
        if facts["owner"] not in ("", self._owner):
            raise RemoteError(
                f"{self._place} holds the campaign of {facts['owner']}, and this is {self._owner}; call from "
                f"there, name another --folder, or, if both are the same folder, remove {STATE}/owner there"
            )

    def _refuse_machine(self, facts: Mapping) -> None:
        """Refuse a machine or folder on which setting up would fail."""
        allowed = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["requires-python"]
        lacking, python = " and ".join(facts["lacking"]), f"{facts['executable']} is Python {facts['python']}"
        reasons = {
            f"{python}; allowed: {allowed}; name another one with --python": facts["python"]
            not in SpecifierSet(allowed),
            f"it has no {lacking}; install that there (docs/setup.md)": facts["lacking"],
            "the folder can't be written to; name another --folder": not facts["is_usable"],
            "remote.py has not made this folder; name another --folder": not facts["is_free"],
            "a path with a brace or a colon holds no workflow; name another --folder": {*"{}:"} & {*self._path},
        }
        for sentence, is_so in reasons.items():
            if is_so:
                raise RemoteError(f"{self._place}: {sentence}")


def _check_results() -> None:
    """Raise DataError if results can't be fetched to where they belong: rsync would replace links by folders."""
    folder = Path(RESULTS)
    if (folder.exists() or folder.is_symlink()) and not folder.is_dir():
        raise DataError(f"{folder} is no folder; remove it")
    if links := [file for file in folder.glob("*") if file.is_symlink()]:
        raise DataError(f"{links[0]} is a link; move what it leads to into {folder}, which may be a link itself")


def _differing(facts: Mapping, planned: Mapping) -> list[str]:
    return [name for name in planned if facts["call"].get(name) != planned[name]]


def _what(facts: Mapping) -> str:
    call = {"started": "?", "host": "?"} | facts["call"]
    if facts["running"]:
        return f"a call runs since {call['started']}, on {call['host']}"
    ended = f"has ended with status {facts['status']}" if facts["status"] else "was interrupted"
    return f"the call of {call['started']}, on {call['host']}, {ended}"
