"""Packs a campaign for a data repository: results, config, source and checksums."""

import subprocess
import zipfile
from collections.abc import Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path

from trainmark.errors import DataError
from trainmark.files.whole import written_whole
from trainmark.report.page import config_to_reproduce
from trainmark.tables.results import Results

KEPT = (
    "plan.json", "summary.json", "runs/**/record.json", "runs/**/evaluation.json", "runs/**/weights.npz",
    "certificates/**/*.json", "evaluations/**/*.json", "tuning/**/*.json", "peaks/*.json", "tables/*", "figures/**/*",
    "report/*", "paper/**/*", "datasets/*/mean.*", "datasets/*/sources.json", "datasets/*/prepared/manifest.json",
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
    title, version = f"Results of {', '.join(dict.fromkeys(runs['experiment']))}", runs["trainmark"].iloc[-1]
    readme = README.format(title=title, version=version, commit=commit, licence=licence)
    content: dict[str, bytes | Path] = {
        "README.md": readme.encode(),
        "CITATION.cff": clone / "CITATION.cff",
        "config.json": f"{config_to_reproduce(plan['config'])}\n".encode(),
    }
    for pattern in KEPT:
        files = filter(Path.is_file, results.folder.glob(pattern))
        content |= {f"results/{file.relative_to(results.folder)}": file for file in files}
    command = ["git", "archive", "--format=zip", commit]
    with zipfile.ZipFile(BytesIO(subprocess.run(command, cwd=clone, capture_output=True, check=True).stdout)) as source:
        content |= {f"source/{name}": source.read(name) for name in source.namelist() if not name.endswith("/")}
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
