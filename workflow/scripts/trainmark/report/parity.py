"""What the report says of a certificate: a row a pair of trainers, each figure traceable to the pair in its file."""

from collections.abc import Mapping

from trainmark.parity.certificate import (
    DIFFERENCES,
    GROUP_KEYS,
    STAGE_TITLES,
    format_difference,
)
from trainmark.parity.compare import REFUSED
from trainmark.plan.run import CERTIFICATE_FILE
from trainmark.records.record import decode_loss
from trainmark.report.cells import Cell

DRIFTS = {"losses": "losses of whole epochs, float32", "weights": "weights after them, float32"}


def certified(found: Mapping | None) -> dict | None:
    """What the template shows of a group's certificate; None where there is none, since one trainer is no pair."""
    if found is None:
        return None
    file = CERTIFICATE_FILE.format(**{key: found[key] for key in GROUP_KEYS})
    shown = [stage for stage in STAGE_TITLES if any(stage in pair["stages"] for pair in found["pairs"])]
    return {
        "file": file,
        "settings": found["settings"],
        "headings": [STAGE_TITLES[stage] for stage in shown] + list(DRIFTS.values()),
        "pairs": [
            {key: pair[key] for key in ("first", "second", "parity", "sentence")}
            | {"refused": pair["parity"] in REFUSED, "cells": _cells(pair, f"{file} {number}", shown)}
            for number, pair in enumerate(found["pairs"])
        ],
    }


def _largest(differences: Mapping) -> float:
    values = [decode_loss(differences[name]) for name in DIFFERENCES]
    return max(value for value in values if value is not None)


def _cells(pair: Mapping, certificate: str, stages: list[str]) -> list[Cell]:
    """The largest difference of each stage, and those of DRIFTS."""
    values: dict[tuple[str, str], float | None] = {}
    for stage in stages:
        differences = pair["stages"].get(stage)
        values["largest", stage] = differences and _largest(differences)
    for name in DRIFTS:
        values[name, "drift"] = pair["drift"] and decode_loss(pair["drift"][name])
    return [
        Cell("none" if value is None else format_difference(value), "", field, statistic, value, certificate)
        for (field, statistic), value in values.items()
    ]
