"""Packs a campaign for a data repository: results, config, source and checksums."""

import os
import subprocess
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from trainmark.errors import DataError
from trainmark.files.whole import written_whole
from trainmark.machine.git import git
from trainmark.paper.kit import kit_files
from trainmark.report.page import config_to_reproduce
from trainmark.tables.results import Results

KEPT = (
    "plan.json", "summary.json", "runs/**/record.json", "runs/**/evaluation.json", "runs/**/weights.npz",
    "certificates/**/*.json", "evaluations/**/*.json", "tuning/**/*.json", "peaks/*.json", "tables/*", "figures/**/*",
    "report/*", "datasets/*/*/mean.*", "datasets/*/*/sources.json", "datasets/*/*/prepared/manifest.json",
)  # fmt: skip
"""What is packed of a results folder: not the data that were trained on, nor logs."""

SUMS = "SHA256SUMS"

README = """# {title}

Packed by trainmark {version}, commit {commit}. License of the results: {licence}

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
    source = _files_of(clone, commit)
    title, version = f"Results of {', '.join(dict.fromkeys(runs['experiment']))}", runs["trainmark"].iloc[-1]
    readme = README.format(title=title, version=version, commit=commit, licence=licence)
    content: dict[str, bytes | Path] = {
        "README.md": readme.encode(),
        "CITATION.cff": source["CITATION.cff"],
        "config.json": f"{config_to_reproduce(plan['config'])}\n".encode(),
    }
    for pattern in KEPT:
        files = filter(Path.is_file, results.folder.glob(pattern))
        content |= {f"results/{file.relative_to(results.folder)}": file for file in files}
    paper = (results.folder / "paper" / name for name in kit_files(results.folder / "paper"))
    content |= {f"results/{file.relative_to(results.folder)}": file for file in paper if file.is_file()}
    content |= {f"source/{name}": data for name, data in source.items()}
    sums = ""
    with written_whole(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(content.items()):
            data = data.read_bytes() if isinstance(data, Path) else data
            sums += f"{sha256(data).hexdigest()}  {name}\n"
            _add(archive, f"{out.stem}/{name}", data)
        _add(archive, f"{out.stem}/{SUMS}", sums.encode())
    return f"{out}: {len(content)} files, {out.stat().st_size / 1e6:.1f} MB"


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    """Add a file, without a date and an owner."""
    entry = zipfile.ZipInfo(name)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    archive.writestr(entry, data)


def _commit(clone: Path) -> str:
    """Return the commit of a clone. Raises DataError if it has changes besides it, or lies in another's clone."""
    top = Path(os.fsdecode(_git(clone, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    if not top.samefile(clone):
        raise DataError(f"{clone} is no git clone but lies in that of {top}: call archive.py in a clone of trainmark")
    for entry in os.fsdecode(_git(clone, "ls-files", "-vz")).split("\0"):
        tag, _, name = entry.partition(" ")
        if tag.islower() or (tag == "S" and (clone / name).exists()):
            option = "--no-assume-unchanged" if tag.islower() else "--no-skip-worktree"
            raise DataError(
                f"{clone / name} may have changes that git was told to hide; call `git -C {clone} update-index "
                f"{option} {name}` first"
            )
    if changed := os.fsdecode(_git(clone, "status", "--porcelain", "-z", "--untracked-files=no")):
        file = changed[3:].partition("\0")[0]
        raise DataError(f"{clone / file} was changed and not committed; commit it, so that the archive has the code")
    return _git(clone, "rev-parse", "--verify", "HEAD").decode().strip()


def _files_of(clone: Path, commit: str) -> dict[str, bytes]:
    """Return the files of a commit byte for byte. `git archive` would change and leave out some by attributes."""
    entries = [line.partition(b"\t") for line in _git(clone, "ls-tree", "-rz", "--full-tree", commit).split(b"\0")]
    names = {os.fsdecode(name): entry.split()[2] for entry, _, name in entries if b" blob " in entry}
    blobs = BytesIO(_git(clone, "cat-file", "--batch", given=b"\n".join(names.values())))
    files = {}
    for name in names:
        size = blobs.readline().split()[-1]
        if size == b"missing":
            raise DataError(f"{clone} is a partial clone without {name}: get it by `git checkout {commit} -- .`")
        files[name] = blobs.read(int(size))
        blobs.readline()
    return files


def _git(clone: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Return the output of a git command. Raises DataError if it fails."""
    try:
        return git(*arguments, folder=clone, given=given)
    except FileNotFoundError as error:
        raise DataError(f"there is no git on the PATH, which reads the commit of {clone}: install git") from error
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error).encode()
        raise DataError(
            f"{clone} is no git clone with a commit that could be packed: {said.decode(errors='replace').strip()}"
        ) from error
