"""Reads campaigns from results folders or archives, and refuses what is no whole campaign."""

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from itertools import combinations
from pathlib import Path

import pandas as pd

from trainmark.errors import DataError, in_one_sentence, why
from trainmark.plan.products import MANIFEST, RESULTS
from trainmark.tables.bounds import LEAST
from trainmark.tables.formatting import counted
from trainmark.tables.frames import SETTING, read_table
from trainmark.tables.metrics import COMPARED

Place = Path | zipfile.Path
"""A folder or a file, which may be in an archive."""

PLAN, RUNS, PARITY, SUMMARY = "plan.json", "runs.parquet", "parity.csv", "summary.json"

PROCESS = ["host", "started", "cpus", "wall_seconds"]
"""Columns of the table of runs in which two runs differ. Those of one run are equal, also after it was renamed."""

NEEDED = (
    *SETTING, *PROCESS, *COMPARED, *LEAST.values(), "number", "repeat", "status", "disturbed", "waited", "device",
    "record", "record_sha256",
)  # fmt: skip
"""Columns of the table of runs without which nothing can be compared."""

AGAIN = "run snakemake there to its end, with this version"

NAMED = 3
"""A text names at most so many things of a list."""


@dataclass(frozen=True)
class Campaign:
    """A campaign, as its tables and records have it.

    name: what it is called; the path that was given. plan: see `plan.jobs.make_plan`. runs, parity: its tables.
    trained: a record of each setting, by the values of the columns SETTING.
    """

    name: str
    plan: Mapping = field(repr=False)
    runs: pd.DataFrame = field(repr=False)
    parity: pd.DataFrame = field(repr=False)
    trained: Mapping[tuple, Mapping] = field(repr=False)

    @property
    def began(self) -> str:
        """When its first run started, in UTC: "2026-11-30T07:14:58+00:00"."""
        return str(self.runs["started"].min())


def read_campaigns(paths: Sequence[Path]) -> list[Campaign]:
    """Read campaigns, in this order.

    paths: of results folders, of archives (`archive.py`), or of the summary.json in a results folder.

    Raises DataError if one of them is no campaign, is not whole, was changed, or holds a run that another one holds.
    """
    campaigns = [*map(read_campaign, paths)]
    for first, second in combinations(campaigns, 2):
        both = first.runs.merge(second.runs, on=PROCESS, suffixes=("", "_second"))
        if len(both):
            raise DataError(
                f"{first.name} and {second.name} hold the same {counted(len(both), 'run')} ({some([*both['id']])}): a "
                "run counts once, so give folders that were trained apart"
            )
    return campaigns


def read_campaign(path: Path) -> Campaign:
    """Read a campaign. Raises DataError: see `read_campaigns`."""
    folder = place_of(path)
    try:
        plan = json.loads((folder / PLAN).read_bytes())
        manifest = json.loads((folder / "tables" / MANIFEST).read_bytes())
        tables = {name: (folder / "tables" / name).read_bytes() for name in (RUNS, PARITY)}
        changed = [name for name, data in tables.items() if sha256(data).hexdigest() != manifest["tables"][name]]
        runs, parity = pd.read_parquet(BytesIO(tables[RUNS])), read_table(BytesIO(tables[PARITY]))
        if lacking := some(sorted({*NEEDED} - {*runs})):
            raise DataError(f"{path}: another version of trainmark made its tables, without {lacking}; {AGAIN}")
        if manifest["order"] != plan["order"] or {*runs["record"]} != {*plan["records"].values()} or runs.empty:
            raise DataError(f"{path}: its tables are not of the runs of its plan.json; {AGAIN}")
        trained: dict[tuple, dict] = {}
        for *setting, name, digest in runs[[*SETTING, "record", "record_sha256"]].itertuples(index=False):
            data = (folder / name).read_bytes()
            if sha256(data).hexdigest() != digest:
                changed.append(name)
            elif tuple(setting) not in trained:
                trained[tuple(setting)] = json.loads(data)
        if changed:
            raise DataError(f"{path}: {some(changed)} changed after the tables were made; {AGAIN}, or call verify.py")
        return Campaign(str(path), plan, runs, parity, trained)
    except (FileNotFoundError, KeyError, NotADirectoryError) as error:
        missing = getattr(error, "filename", None) or str(error).strip("'\"")
        raise DataError(
            f"{path} is no results folder of this version of trainmark, or its campaign is not finished: it lacks "
            f"{missing}; {AGAIN}"
        ) from error
    except OSError as error:
        raise DataError(f"{path} can't be read {why(error)}") from error
    except (ValueError, TypeError, AttributeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is damaged, or of another version of trainmark: {in_one_sentence(error)}") from error


def place_of(path: Path) -> Place:
    """The results folder of what was given. Raises DataError if it is none."""
    if path.name == SUMMARY and path.is_file():
        if not (path.parent / PLAN).is_file():
            raise DataError(f"{path} has no runs beside it, and runs are what is compared: give its results folder")
        return path.parent
    if path.is_dir():
        inside = path / RESULTS  # of a clone
        return inside if (inside / PLAN).is_file() and not (path / PLAN).exists() else path
    if not path.is_file():
        raise DataError(
            f"there is no {path}; allowed: results folders, archives of archive.py, summary.json in a folder"
        )
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} is no archive of archive.py; allowed: results folders and archives") from error
    plans = [name for name in archive.namelist() if name.endswith(f"/{RESULTS}/{PLAN}") and name.count("/") == 2]
    if len(plans) != 1:
        raise DataError(f"{path} has no results of archive.py: found {len(plans)} files {RESULTS}/{PLAN}, needs one")
    return zipfile.Path(archive, plans[0].removesuffix(PLAN))


def some(names: Sequence[str]) -> str:
    """The names with commas; of many the first ones, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"
