"""What is run on a remote machine: a config, the local files that it names, the code, the options of snakemake."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from trainmark.cluster.site import SITE_FILE
from trainmark.config.load import REPOSITORY, default_config, load_config
from trainmark.errors import ConfigError, DataError
from trainmark.files.checksums import sha256_of
from trainmark.machine.git import git
from trainmark.plan.products import RESULTS
from trainmark.remote.there import STATE
from trainmark.session.other_calls import PATH_OPTIONS, is_of_paths

PROFILES = ("--profile", "--workflow-profile")

DEFAULTS = {
    ("--cores", "4"): ("-c", "-j", "--cores", "--jobs", *PROFILES),
    ("--resources", "gpu=1"): ("--resources", "--res", *PROFILES),
}
"""Options of snakemake, and those without which they are given."""

OWN = (".git", ".snakemake", ".venv", RESULTS, STATE)
"""What is not copied, whatever names it, but for weights of a run in results."""


@dataclass(frozen=True)
class Call:
    """A call of snakemake to run elsewhere.

    options: of snakemake, with its config files. experiments: their names. targets: those of make that set up for it.
    files: paths to copy, relative to the working directory. config, code: digests of these files, and of the code.
    """

    options: list[str]
    experiments: list[str]
    targets: list[str]
    files: list[str]
    config: str
    code: str


def read_call(configs: Sequence[str], also: Sequence[str], options: Sequence[str]) -> Call:
    """Check config files, and find out what a call with them needs.

    also: further paths to copy. options: of snakemake.

    Raises ConfigError if the config is refused, or if a path would be another file there.
    """
    if paths := [option for option in options if is_of_paths(option)]:
        raise ConfigError(
            f"found the option {paths[0]}; allowed: options of snakemake but {', '.join(sorted(PATH_OPTIONS))}; config "
            "files come before --"
        )
    default = [] if configs else [default_config()]
    config, _ = load_config([*map(Path, configs), *default], fetches=False)
    configs = configs or [str(file) for file in default if not file.is_absolute()]
    named = [(key, path) for key, path in _named(config) if path[0] not in "/~"]
    given = [*(("config", path) for path in configs), *(("--also", path) for path in also)]
    files = [_copied(*one) for one in (*given, *named)] + ([SITE_FILE] if Path(SITE_FILE).exists() else [])
    names = {name for option in options for name in (option[:2], option.partition("=")[0])}
    call = [*options, *(word for default, others in DEFAULTS.items() if not names & {*others} for word in default)]
    call += ["--configfile", *configs] if configs else []
    code = _git("rev-parse", "HEAD") + _git("diff", "--binary", "--no-ext-diff", "--no-textconv", "HEAD")
    experiments = config["experiments"]
    torch = any({"torch", "keras-torch"} & {*experiment["frameworks"]} for experiment in experiments.values())
    workers = any(max(experiment["workers"]) > 1 for experiment in experiments.values())
    targets = [".venv/.installed", "cluster", *["torch"] * torch, *["workers"] * workers]
    digests = (sha256(one).hexdigest() for one in (b"".join(map(_content, files)), code))
    return Call(call, list(experiments), targets, files, *digests)


def _named(config: Mapping) -> Iterator[tuple[str, str]]:
    """Yield key and path of the files and folders that a config names to be read. An address is none."""
    found = [("mirror", config["mirror"]), *(("networks", file) for file in config["networks"])]
    found += [("folder", entry.get("folder")) for entry in config["datasets"].values()]
    for experiment in config["experiments"].values():
        found.append(("initial_weights", experiment["initial_weights"]))
        for command in experiment["commands"].values():
            found += [("files", url) for file in command["files"] for url in file["urls"]]
            found += [(key, command[key]) for key in ("environment", "container") if os.path.isfile(command[key] or "")]
    yield from ((key, path) for key, path in found if path and "://" not in path)


def _copied(key: str, path: str) -> str:
    """Return the path of what is copied. Raises ConfigError if it is not there, or not in this folder."""
    if os.path.isabs(path) or ".." in Path(path).parts:
        raise ConfigError(
            f"{key}: found {path}; allowed: a path in this folder, {Path.cwd()}, which is copied (a link will do), or, "
            "in a config, one that begins with / or ~, which is a path on the remote machine"
        )
    if not Path(path).exists():
        raise ConfigError(f"{key}: found {path}, which is not there (in {Path.cwd()}); allowed: a path that is")
    copied, of_code = os.path.normpath(path), REPOSITORY / path
    is_other = key != "config" and of_code.exists() and not of_code.samefile(path)
    if copied == "." or (Path(copied).parts[0] in OWN and key != "initial_weights") or is_other:
        raise ConfigError(
            f"{key}: found {path}, which trainmark has itself on the remote machine; allowed: another name"
        )
    return copied


def _content(path: str) -> bytes:
    """Return what tells the content of a file or folder from another one: of a folder, names, sizes and times."""
    if Path(path).is_file():
        return f"{path}\0{sha256_of(Path(path))}\0".encode()
    found = sorted(Path(path).rglob("*"))
    for link in (file for file in found if file.is_symlink()):
        if not link.exists() or Path(path).resolve().is_relative_to(link.resolve()):
            raise ConfigError(f"{link} is a link to nothing, or to a folder that it lies in; remove it")
    return "".join(f"{file}\0{(stat := file.stat()).st_size} {stat.st_mtime_ns}\0" for file in found).encode()


def code_files() -> bytes:
    """Return the paths of the code in the repository, each ended by a zero byte."""
    paths = _git("ls-files", "-z").split(b"\0")
    return b"\0".join(path for path in paths if path and (REPOSITORY / os.fsdecode(path)).exists())


def write_commit(folder: Path) -> None:
    """Write a repository of this commit alone. On the remote machine records get their commit from it."""
    _git("clone", "--quiet", "--bare", "--depth", "1", REPOSITORY.as_uri(), str(folder))
    for command in (("config", "core.bare", "false"), ("remote", "remove", "origin"), ("read-tree", "HEAD")):
        _git(f"--git-dir={folder}", f"--work-tree={REPOSITORY}", *command)
    shutil.rmtree(folder / "hooks", ignore_errors=True)


def _git(*arguments: str) -> bytes:
    try:
        return git(*arguments, folder=REPOSITORY)
    except FileNotFoundError as error:
        raise DataError("there is no git on the PATH, which tells what belongs to the code: install git") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise DataError(f"{REPOSITORY} is no git clone whose code could be copied: {said}") from error
