"""The report's table of a certificate: one row per pair of trainers, with each number traceable to the certificate."""

from collections.abc import Iterable, Mapping

from trainmark.parity.certificate import (
    DIFFERENCES,
    STAGE_TITLES,
    format_difference,
)
from trainmark.parity.compare import REFUSED
from trainmark.parity.epoch_check import LOSSES, UPDATE
from trainmark.records.record import decode_loss
from trainmark.report.cells import Cell

EPOCHS = {LOSSES: "losses in whole epochs, float32", UPDATE: "weights after whole epochs, float32"}


def certified(certificate: Mapping | None, file: str) -> dict | None:
    """The values for the template from a group's certificate; None if a group has none, because it has one trainer.

    file: its path in the results folder.
    """
    if certificate is None:
        return None
    shown = [stage for stage in STAGE_TITLES if any(stage in pair["stages"] for pair in certificate["pairs"])]
    epochs = EPOCHS if certificate["settings"]["epochs"]["batches"] else {}
    return {
        "file": file,
        "settings": certificate["settings"],
        "headings": [*(STAGE_TITLES[stage] for stage in shown), *epochs.values()],
        "pairs": [
            {key: pair[key] for key in ("first", "second", "parity", "sentence")}
            | {"refused": pair["parity"] in REFUSED, "cells": _cells(pair, f"{file} {number}", shown, epochs)}
            for number, pair in enumerate(certificate["pairs"])
        ],
    }


def largest_difference(stage: Mapping, names: Iterable[str] = DIFFERENCES) -> float:
    """The largest difference of a stage of a certified pair, of those named; the others are ignored."""
    values = (decode_loss(stage[name]) for name in names)
    return max(value for value in values if value is not None)


def _cells(pair: Mapping, certificate: str, stages: list[str], epochs: Iterable[str]) -> list[Cell]:
    """The cells of a pair: the largest difference of each stage, and the differences of whole epochs."""
    values: dict[tuple[str, str], float | None] = {}
    for stage in stages:
        differences = pair["stages"].get(stage)
        values["largest", stage] = differences and largest_difference(differences)
    of_epochs = {one["what"]: decode_loss(one["difference"]) for one in pair["epochs"] or []}
    values |= {(what, "epochs"): of_epochs.get(what) for what in epochs}
    return [
        Cell("none" if value is None else format_difference(value), "", field, statistic, value, certificate)
        for (field, statistic), value in values.items()
    ]
