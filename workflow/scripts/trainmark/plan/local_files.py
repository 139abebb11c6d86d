"""Look at the files and folders of this machine that a config names: whether they are there, and which they are."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from trainmark.config.checks import MIRROR_VARIABLE
from trainmark.config.schema_check import Finding, raise_findings
from trainmark.console import say_when_long
from trainmark.datasets.catalogue import known_formats, own_files
from trainmark.datasets.fetching.addresses import in_mirror, is_web, path_of
from trainmark.errors import did_you_mean
from trainmark.files.checksums import expected_checksum, has_checksum, sha256_of
from trainmark.plan.matrix import datasets_of
from trainmark.plan.products import COMMAND, DATASET, MANIFEST, RESULTS, raw_folder
from trainmark.recipes.command import script_of


def with_local_files(
    config: Mapping, catalogue: Mapping, documents: Mapping[str, Mapping], *, refuses: bool = True, here: bool = True
) -> tuple[dict, dict]:
    """Return config and catalogue with the SHA-256 of each local file for which they give none, as it is now.

    config, catalogue: as `load_config` returns them. documents: see `raise_findings`.
    refuses: raise ConfigError if a file or folder is not there, or if a file has not the checksum that it should have.
    here: whether jobs run on this machine. A cluster's nodes may have other folders.
    """
    filled, entries = deepcopy(dict(config)), deepcopy(dict(catalogue))
    findings = [*_commands(filled, here), *_datasets(filled, entries, here)]
    if refuses:
        raise_findings(findings, documents)
    return filled, entries


def _commands(config: Mapping, here: bool) -> Iterator[Finding]:
    for experiment, settings in config["experiments"].items():
        for name, command in settings["commands"].items():
            path = ("experiments", experiment, "commands", name)
            folder = COMMAND.format(experiment=experiment, recipe=name, key="*")
            for i, file in enumerate(command["files"]):
                mirrored = in_mirror(_mirror(config), f"{name}/{file['path']}")
                yield from _file(
                    (*path, "files", i), file, Path(RESULTS).glob(f"{folder}/files/{file['path']}"), mirrored
                )
            if problem := _script_problem(command, here):
                yield (*path, "command"), problem


def _script_problem(command: Mapping, here: bool) -> str | None:
    """Return why the script of a command can't be started; None if it can, or if that is not known."""
    script = script_of(command) or ""
    if os.path.isabs(script):
        is_there = not here or command["container"] or os.path.exists(script)
        return None if is_there else f"found {script}, which is not there; allowed: a script that is"
    paths = [file["path"] for file in command["files"]]
    if not script or os.path.normpath(script) in map(os.path.normpath, paths):
        return None
    hint = did_you_mean(script, paths)
    return f"found {script}, which is none of its files; allowed: the path of one, or a whole path{hint}"


def _datasets(config: dict, catalogue: dict, here: bool) -> Iterator[Finding]:
    for name in datasets_of(config, catalogue):
        entry = catalogue[name]
        if "folder" in entry:
            prepared = f"{DATASET.format(dataset=name, key='*')}/prepared/{MANIFEST}"
            is_prepared = any(Path(RESULTS).glob(prepared))
            if here and not is_prepared and (problem := _folder_problem(name, catalogue)):
                yield ("datasets", name, "folder"), f"found {entry['folder']}, {problem}"
            continue
        for i, file in enumerate(entry.get("files", [])):
            mirrored = in_mirror(_mirror(config), f"{name}/{file['name']}")
            yield from _file(
                ("datasets", name, "files", i), file, [Path(RESULTS, raw_folder(name), file["name"])], mirrored
            )
        if "files" in (own := config["datasets"].get(name, {})):
            own["files"] = entry["files"]  # for jobs, which take them from the plan


def _mirror(config: Mapping) -> str | None:
    return config["mirror"] or os.environ.get(MIRROR_VARIABLE)


def _folder_problem(name: str, catalogue: Mapping) -> str | None:
    entry = catalogue[name]
    folder = Path(os.path.expanduser(entry["folder"]))
    if not folder.is_dir():
        return f"which is not there{_looked_in(folder)}; allowed: a folder with the data"
    lists = [folder / os.path.expanduser(file) for file in entry.get("lists", {}).values()]
    if missing := [path for path in lists if not path.is_file()]:
        return f"where {missing[0]} of lists is not there; allowed: lists that are"
    pattern = known_formats()[entry["format"]].own_files
    if pattern and not own_files(name, catalogue):
        return f"which holds no {pattern}; allowed: a folder with the data of the format {entry['format']}"
    return None


def _file(path: tuple, file: dict[str, Any], fetched: Iterable[Path], mirrored: Sequence[str]) -> Iterator[Finding]:
    """Give a file to fetch its digest if it is local and has none, and find out what is wrong with it.

    path: its key path. fetched: where it may be fetched to. mirrored: its addresses in the mirror.
    """
    own = [path_of(address) for address in file["urls"] if not is_web(address)]
    if not own:
        return
    gone = (path, f"found {own[0]}, which is not there{_looked_in(own[0])}; allowed: a file that is")
    there = [one for one in own if one.is_file()]
    if not {"sha256", "md5"} & file.keys():
        known = next(iter(there), None)  # what was fetched may be of another file, of an earlier name
        file["sha256"] = known and _digest_of(known)
        if known is None:
            yield gone
        return
    others = [path_of(address) for address in mirrored]
    if any(map(is_web, (*file["urls"], *mirrored))) or any(has_checksum(one, file) for one in (*there, *others)):
        return
    kind, _ = expected_checksum(file)
    if there and kind == "sha256":
        now = f"{there[0]} has changed, its sha256 is now {_digest_of(there[0])}"
        yield (*path, kind), f"{now}; allowed: that one, or no sha256 for a file as it is"
    elif there:
        yield (*path, kind), f"{there[0]} has another {kind}; allowed: that of the file"
    elif not any(has_checksum(one, file) for one in fetched):
        yield gone


def _looked_in(path: Path) -> str:
    return "" if path.is_absolute() else f" (in {Path.cwd()})"


def _digest_of(path: Path) -> str:
    with say_when_long(f"reading {path}"):
        return sha256_of(path)
