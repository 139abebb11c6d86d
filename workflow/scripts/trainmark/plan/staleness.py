"""Is what lies in the results what the config asks for? Decided from the files themselves: Snakemake's metadata may be
gone, or of another folder.

Standard library only, and no check against a schema: a dry run looks at every record. Each function returns what of a
file is not as asked, in words ("settings", "code"); nothing where there is no file.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from trainmark.files.seal import digest_of
from trainmark.plan.products import MANIFEST, RESULTS, TABLES, prepared_folder


def record_changes(path: Path, run_id: str, asked: Mapping, code: str | None) -> list[str]:
    """Of a record.

    asked: settings and recipe as plain JSON values, and the dataset's name. code: digest of the code that would train
    the run today; None where other code may have. A file that is no record of this version is none of the run.
    """
    return _changes(path, lambda record: _of_record(record, run_id, asked, code))


def _of_record(record: Mapping, run_id: str, asked: Mapping, code: str | None) -> dict[str, bool]:
    return {
        "another run": record["run"]["id"] == run_id,
        "settings": record["settings"]["experiment"] == asked["settings"],
        "recipe": record["inputs"]["recipe"] == asked["recipe"],
        "dataset": _is_prepared(record["dataset"]["content_sha256"], asked["dataset"]),
        "code": code in (None, record["provenance"]["code"]["sha256"]),
    }


def certificate_changes(path: Path, group: Mapping, asked: Mapping, code: Mapping | None) -> list[str]:
    """Of a certificate of a group (experiment, recipe, dataset).

    code: digests by framework, and of the comparison by "certify".
    """
    return _changes(path, lambda found: _of_certificate(found, group, asked, code))


def _of_certificate(found: Mapping, group: Mapping, asked: Mapping, code: Mapping | None) -> dict[str, bool]:
    settings, trainers = found["settings"], found["trainers"]
    digests = {"certify": found["code"]["sha256"]} | {one["framework"]: one["code"]["sha256"] for one in trainers}
    return {
        "another group": {key: found[key] for key in group} == group,
        "settings": settings["experiment"] == asked["settings"],
        "recipe": settings["recipe"] == asked["recipe"],
        "dataset": _is_prepared(settings["dataset_sha256"], asked["dataset"]),
        "code": code in (None, digests),
    }


def _is_prepared(content_sha256: str, dataset: str) -> bool:
    """Whether this is the content of the dataset as it lies prepared; true where it is not prepared."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        manifest = json.loads((Path(prepared_folder(dataset)) / "manifest.json").read_text())
        return bool(manifest["content_sha256"] == content_sha256)
    return True


def tables_changes(files: Iterable[str], order: Sequence[str]) -> list[str]:
    """Of the tables. files: the records and certificates that they are asked to be made of; order: of the runs."""
    return _changes(Path(TABLES, MANIFEST), lambda manifest: _of_tables(manifest, files, order))


def _of_tables(manifest: Mapping, files: Iterable[str], order: Sequence[str]) -> dict[str, bool]:
    return {
        "runs": manifest["order"] == list(order),
        "records": manifest["made_of"] == {str(Path(file).relative_to(RESULTS)): _digest(file) for file in files},
        "content": manifest["tables"] == {name: _sha256(Path(TABLES, name)) for name in manifest["tables"]},
    }


def _sha256(file: Path) -> str | None:
    with suppress(OSError):
        return hashlib.sha256(file.read_bytes()).hexdigest()
    return None


def _digest(file: str) -> str | None:
    """The digest of a record or a certificate as it lies there; None where there is none."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        return digest_of(json.loads(Path(file).read_text(encoding="utf-8")))
    return None


def _changes(path: Path, compared: Callable[[Mapping], Mapping[str, bool]]) -> list[str]:
    if not path.exists():
        return []
    try:
        return [what for what, same in compared(json.loads(path.read_text(encoding="utf-8"))).items() if not same]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ["format"]
