"""Packs a campaign for a data repository: results, config, source, checksums, and metadata of the RO-Crate standard."""

import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.files.whole import write_text, written_whole
from trainmark.report.page import config_to_reproduce
from trainmark.tables.results import Results

KEPT = (
    "plan.json", "summary.json", "runs/**/record.json", "runs/**/evaluation.json", "runs/**/weights.npz",
    "certificates/**/*.json", "evaluations/**/*.json", "tuning/**/*.json", "peaks/*.json", "tables/*", "figures/**/*",
    "report/*", "paper/**/*", "datasets/*/mean.*", "datasets/*/sources.json", "datasets/*/prepared/manifest.json",
)  # fmt: skip
"""What is packed of a results folder: not the data that were trained on, nor logs."""

SUMS = "SHA256SUMS"

PROFILE = "https://w3id.org/ro/wfrun/process/0.5"
"""The Process Run profile of RO-Crate."""

README = """# {title}

Packed by trainmark {version}, commit {commit}.

    sha256sum -c --quiet SHA256SUMS              # names each file that was changed
    cd source && make .venv/.installed && cd ..  # the environment, from its locks
    source/.venv/bin/python source/workflow/scripts/verify.py results

`verify.py` makes tables, figures, report and the paper's numbers again from the records in results/runs, and names each
that differs. config.json is the config; `make` in source/ trains it again.
"""


def pack(results: Results, plan: Mapping, clone: Path, out: Path, licence: str) -> str:
    """Write the archive, a ZIP file, and return a line on what is in it. The same content gives the same bytes.

    plan: see `plan_file.read_plan`. clone: the clone of trainmark, whose commit is packed. licence: address of that of
        the results.

    Raises DataError if the clone has changes that are not committed, or is none.
    """
    commit, runs = _commit(clone), results.runs
    with TemporaryDirectory() as scratch:
        root = Path(scratch, out.stem)
        for pattern in KEPT:
            for file in filter(Path.is_file, results.folder.glob(pattern)):
                _copy(file, root / "results" / file.relative_to(results.folder))
        command = ["git", "archive", "--format=zip", commit]
        source = subprocess.run(command, cwd=clone, capture_output=True, check=True).stdout
        zipfile.ZipFile(BytesIO(source)).extractall(root / "source")
        _copy(clone / "CITATION.cff", root / "CITATION.cff")
        write_text(root / "config.json", config_to_reproduce(plan["config"]) + "\n")
        title, version = f"Results of {', '.join(dict.fromkeys(runs['experiment']))}", runs["trainmark"].iloc[-1]
        write_text(root / "README.md", README.format(title=title, version=version, commit=commit))
        _write_metadata(root, title, runs, {"softwareVersion": version, "identifier": commit}, licence)
        files = sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())
        write_text(root / SUMS, "".join(f"{sha256_of(root / file)}  {file}\n" for file in files))
        _zip(root, [*files, Path(SUMS)], out)
    return f"{out}: {len(files)} files, {out.stat().st_size / 1e6:.1f} MB"


def _commit(clone: Path) -> str:
    """Return the commit of a clone. Raises DataError if it has changes besides it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", clone, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DataError(f"{clone} is no git clone, so there is no commit to pack: {done.stderr.strip()}")
        return done.stdout.strip()

    if changed := git("status", "--porcelain", "--untracked-files=no"):
        file = changed.split("\n")[0].split(maxsplit=1)[1]
        raise DataError(f"{clone / file} was changed and not committed; commit it, so that the archive has the code")
    return git("rev-parse", "HEAD")


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


def _write_metadata(root: Path, title: str, runs: pd.DataFrame, software: Mapping, licence: str) -> None:
    """Write ro-crate-metadata.json: the campaign as a process, from its config to its results."""
    from rocrate.model import ContextEntity  # only here: nothing else needs the package
    from rocrate.rocrate import ROCrate

    crate = ROCrate(version="1.1")  # which the profile extends
    started, ended = runs["started"].min(), runs["started"].max()
    crate.name, crate.license, crate.datePublished = title, licence, ended
    crate.description = (
        f"{len(runs)} runs on {', '.join(dict.fromkeys(runs['host']))}: records, tables, figures and report."
    )
    profile = {"@type": "CreativeWork", "name": "Process Run Crate", "version": PROFILE.rpartition("/")[2]}
    crate.root_dataset["conformsTo"] = crate.add(ContextEntity(crate, PROFILE, properties=profile))
    application = {"@type": "SoftwareApplication", "name": "trainmark", **software}
    instrument = crate.add(ContextEntity(crate, "#trainmark", properties=application))
    config = crate.add_file(
        dest_path="config.json", properties={"name": "config", "encodingFormat": "application/json"}
    )
    folders = sorted(path.name for path in (root / "results").iterdir() if path.is_dir())
    made = [crate.add_directory(dest_path=f"results/{name}", properties={"name": name}) for name in folders]
    crate.add_directory(dest_path="source", properties={"name": "source of trainmark"})
    process = {"@type": "CreateAction", "name": title, "startTime": started, "endTime": ended}
    action = crate.add(ContextEntity(crate, "#campaign", properties=process))
    action["instrument"], action["object"], action["result"] = instrument, config, made
    crate.root_dataset["mentions"] = action
    crate.metadata.write(root)


def _zip(root: Path, files: Iterable[Path], out: Path) -> None:
    """Write files into an archive, without their dates and owners."""
    with written_whole(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(f"{root.name}/{file}")
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, (root / file).read_bytes())
