"""The file of weights that a training starts from, beside its digest in the plan and in the record."""

from pathlib import Path

from trainmark.errors import DataError, why
from trainmark.files.checksums import sha256_of


def initial_weights_sha256(file: Path | None) -> str | None:
    """Return the SHA-256 of the file from which a run starts, or None. Raises DataError if it can't be read."""
    try:
        return sha256_of(file) if file else None
    except OSError as error:
        raise DataError(
            f"initial_weights: {file} can't be read {why(error, 'restore it')}, or change initial_weights"
        ) from error


def check_initial_weights(file: Path | None, sha256: str | None) -> None:
    """Raise DataError if the file is not the one that the run was planned with."""
    if initial_weights_sha256(file) != sha256:
        raise DataError(f"initial_weights: {file} has changed since this call of snakemake began; call it again")
