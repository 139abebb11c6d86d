"""Find results that do not match the config.

The check reads the result files themselves, because Snakemake's metadata may be missing or belong to another folder.
It uses only the standard library and checks no schema, because a dry run reads every record. Each public function
returns what differs ("settings", "code"). The list is empty if the file matches or does not exist.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from trainmark.errors import DataError, expect_damage
from trainmark.files.seal import digest_of
from trainmark.plan.products import MANIFEST, PAPER_FILES, PAPER_FOLDER, RESULTS, TABLES, prepared_folder
from trainmark.trainer import Trainer


def record_changes(path: Path, run_id: str, expected: Mapping, code: str | None) -> list[str]:
    """Return what differs between a record and the config.

    expected: settings and recipe as plain JSON values, the dataset's name, and the SHA-256 of its mean image and of the
        initial weights. A mean image that is not there counts as equal, as the dataset does.
    code: digest of the code that would train the run now; None to ignore the code.

    A file that is not a record of this version differs in its "format".
    """
    return _changes(path, lambda record: _matches_of_record(record, run_id, expected, code))


def _matches_of_record(record: Mapping, run_id: str, expected: Mapping, code: str | None) -> dict[str, bool]:
    return {
        "run": record["run"]["id"] == run_id,
        "settings": record["settings"] == expected["settings"],
        "recipe": record["inputs"]["recipe"] == expected["recipe"],
        "dataset": _is_prepared(record["dataset"]["content_sha256"], expected["dataset"]),
        "mean image": expected["mean_sha256"] in (None, record["inputs"]["mean_sha256"]),
        "initial weights": record["inputs"]["initial_weights_sha256"] == expected["initial_weights_sha256"],
        "code": code in (None, record["provenance"]["code"]["sha256"]),
    }


def certificate_changes(path: Path, group: Mapping, expected: Mapping, code: Mapping | None) -> list[str]:
    """Return what differs between a certificate and the config.

    group: experiment, recipe and dataset.
    expected: as for `record_changes`.
    code: digests of the tracing code by trainer, and of the comparing code as "certify"; None to ignore the code.
    """
    return _changes(path, lambda certificate: _matches_of_certificate(certificate, group, expected, code))


def _matches_of_certificate(
    certificate: Mapping, group: Mapping, expected: Mapping, code: Mapping | None
) -> dict[str, bool]:
    settings, trainers = certificate["settings"], certificate["trainers"]
    digests = {Trainer.parse(one["trainer"]).name: one["code"]["sha256"] for one in trainers}
    digests["certify"] = certificate["code"]["sha256"]
    return {
        "group": {key: certificate[key] for key in group} == group,
        "settings": settings["experiment"] == expected["settings"],
        "recipe": settings["recipe"] == expected["recipe"],
        "dataset": _is_prepared(settings["dataset_sha256"], expected["dataset"]),
        "initial weights": settings["initial_weights_sha256"] == expected["initial_weights_sha256"],
        "code": code in (None, digests),
    }


def tuning_changes(path: Path, group: Any, expected: Mapping, code: str | None) -> list[str]:
    """Return what differs between a timed tuning and the config.

    group: wildcards of the file.
    expected: as for `record_changes`.
    code: digest of the code that would time it now; None to ignore the code.
    """
    return _changes(path, lambda tuning: _matches_of_tuning(tuning, group, expected, code))


def _matches_of_tuning(tuning: Mapping, group: Any, expected: Mapping, code: str | None) -> dict[str, bool]:
    inputs = tuning["inputs"]
    keys = ("experiment", "recipe", "dataset", "trainer")
    return {
        "trainer": all(tuning[key] == getattr(group, key) for key in keys),
        "settings": inputs["settings"] == expected["settings"],
        "recipe": inputs["recipe"] == expected["recipe"],
        "dataset": _is_prepared(inputs["dataset_sha256"], expected["dataset"]),
        "code": code in (None, inputs["code"]),
    }


def _is_prepared(content_sha256: str, dataset: str) -> bool:
    """Return whether the prepared dataset has this content. A dataset that is not prepared counts as equal."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        manifest = json.loads((Path(prepared_folder(dataset)) / MANIFEST).read_text())
        return bool(manifest["content_sha256"] == content_sha256)
    return True


def sources_of_prepared(dataset: str) -> list[str]:
    """Return the list of a dataset's sources as a path, if it is what the dataset was prepared from; else no path."""
    with suppress(OSError, ValueError, LookupError, TypeError):
        prepared = Path(prepared_folder(dataset))
        file = prepared.parent / "sources.json"
        if json.loads(file.read_text()) == json.loads((prepared / MANIFEST).read_text())["sources"]:
            return [str(file)]
    return []


def paper_changes(*_: object) -> list[str]:
    """Return "files" if one of the paper kit is gone. Raises DataError if its folder can't be made."""
    folder = Path(PAPER_FOLDER)
    if os.path.lexists(folder) and not folder.is_dir():
        raise DataError(f"{folder} is a file, or a link to nothing, and the paper kit needs a folder there; rename it")
    return _changes(folder / PAPER_FILES, lambda names: {"files": all((folder / name).exists() for name in names)})


def tables_changes(files: Iterable[str], order: Sequence[str]) -> list[str]:
    """Return what differs between the tables and the config.

    files: the records, certificates, cross-evaluations and timed tunings that the tables should be made from.
    order: ids of all runs, in the order of training.
    """
    return _changes(Path(TABLES, MANIFEST), lambda manifest: _matches_of_tables(manifest, files, order))


def _matches_of_tables(manifest: Mapping, files: Iterable[str], order: Sequence[str]) -> dict[str, bool]:
    return {
        "runs": manifest["order"] == list(order),
        "records": manifest["made_of"] == {str(Path(file).relative_to(RESULTS)): _digest(file) for file in files},
        "content": manifest["tables"] == {name: _sha256(Path(TABLES, name)) for name in manifest["tables"]},
    }


@cache
def sha256_of_input(file: str) -> str | None:
    """Return the SHA-256 of a file that trainings read, which is computed once; None if the file cannot be read."""
    return _sha256(Path(file))


def _sha256(file: Path) -> str | None:
    with suppress(OSError), open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
    return None


def _digest(file: str) -> str | None:
    """Return the digest that one of trainmark's JSON files holds; None if the file cannot be read."""
    with suppress(OSError, ValueError, AttributeError, RecursionError):
        return digest_of(json.loads(Path(file).read_text(encoding="utf-8")))
    return None


def _changes(path: Path, compare: Callable[[Mapping], Mapping[str, bool]]) -> list[str]:
    """Return the names for which `compare` finds a difference; ["format"] if the file cannot be compared."""
    if not path.exists():
        return []
    try:
        return [name for name, same in compare(json.loads(path.read_text(encoding="utf-8"))).items() if not same]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        expect_damage(error, path)  # a result that can't be read now is not made again
        return ["format"]
