"""Packs a campaign for a data repository: results, config, source and checksums."""

import os
import subprocess
import zipfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from trainmark.errors import DataError
from trainmark.files.whole import written_whole
from trainmark.machine.git import git
from trainmark.paper.kit import kit_files
from trainmark.plan.products import RESULTS, TABLE_FILES
from trainmark.report.page import config_to_reproduce
from trainmark.tables.sections import Results

KEPT = (
    "plan.json", "summary.json", "runs/**/record.json", "runs/**/evaluation.json", "runs/**/weights.npz",
    "certificates/**/*.json", "evaluations/**/*.json", "tuning/**/*.json", "peaks/*.json", "figures/**/*",
    "report/*", "datasets/*/*/mean.*", "datasets/*/*/sources.json", "datasets/*/*/prepared/manifest.json",
    *(file.removeprefix(f"{RESULTS}/") for file in TABLE_FILES),
)  # fmt: skip
"""What is packed of a results folder: not the data that were trained on, nor logs."""

SUMS = "SHA256SUMS"

README = """# Results of {experiments}

Packed by trainmark {version}, commit {commit}. License of the results: {licence}

    sha256sum -c --quiet SHA256SUMS              # names each file that was changed
    cd source && make .venv/.installed && cd ..  # the environment, from its locks
    source/.venv/bin/python source/workflow/scripts/verify.py results

`verify.py` makes tables, figures, report and the paper's numbers again from the records in results/runs, and names each
that differs. config.json is the config; `make` in source/ trains it again.
"""


def pack(results: Results, clone: Path, out: Path, licence: str) -> str:
    """Write the archive, a ZIP file, and return a line on what is in it. The same content gives the same bytes.

    clone: the clone of trainmark, whose commit is packed. licence: address of that of the results.

    Raises DataError if the clone has changes that are not committed, or is none.
    """
    commit, folder = _commit(clone), results.folder
    source, experiments = _files_of(clone, commit), ", ".join(results.runs["experiment"].unique())
    version = results.runs["trainmark"].iloc[-1]
    kept = [file for pattern in KEPT for file in folder.glob(pattern)]
    kept += [folder / "paper" / name for name in kit_files(folder / "paper")]
    content: dict[str, bytes | Path] = {
        "README.md": README.format(experiments=experiments, version=version, commit=commit, licence=licence).encode(),
        "CITATION.cff": source["CITATION.cff"],
        "config.json": f"{config_to_reproduce(results.plan, 'results/plan.json')}\n".encode(),
        **{f"results/{file.relative_to(folder)}": file for file in kept if file.is_file()},
        **{f"source/{name}": data for name, data in source.items()},
    }
    sums = ""
    with written_whole(out) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in (*sorted(content), SUMS):
            data = sums.encode() if name == SUMS else content[name]
            data = data.read_bytes() if isinstance(data, Path) else data
            sums += f"{sha256(data).hexdigest()}  {name}\n"
            entry = zipfile.ZipInfo(f"{out.stem}/{name}")  # without a date and an owner
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
    return f"{out}: {len(content)} files, {out.stat().st_size / 1e6:.1f} MB"


def _commit(clone: Path) -> str:
    """Return the commit of a clone. Raises DataError if it has changes besides it, or lies in another's clone."""
    top = Path(os.fsdecode(_git(clone, "rev-parse", "--show-toplevel").removesuffix(b"\n")))
    if not top.samefile(clone):
        raise DataError(f"{clone} is no git clone but lies in that of {top}: call archive.py in a clone of trainmark")
    for entry in os.fsdecode(_git(clone, "ls-files", "-vz")).split("\0"):
        tag, _, name = entry.partition(" ")
        if tag.islower() or (tag == "S" and (clone / name).exists()):
            option = "--no-assume-unchanged" if tag.islower() else "--no-skip-worktree"
            command = f"git -C {clone} update-index {option} {name}"
            raise DataError(f"{clone / name} may have changes that git was told to hide; call `{command}` first")
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
        files[name] = blobs.read(int(size) + 1)[:-1]  # a newline follows each
    return files


def _git(clone: Path, *arguments: str, given: bytes = b"") -> bytes:
    """Return the output of a git command. Raises DataError if it fails."""
    try:
        return git(*arguments, folder=clone, given=given)
    except FileNotFoundError as error:
        raise DataError(f"there is no git on the PATH, which reads the commit of {clone}: install git") from error
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace").strip()
        raise DataError(f"{clone} is no git clone with a commit that could be packed: {said}") from error
