"""Every number of a campaign by a key, as a paper writes it: from the table of numbers, and from the table of runs."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pandas as pd

from trainmark.errors import ConfigError
from trainmark.tables.formatting import RATIOS, format_number, listed, number_in_words, unit_in_words
from trainmark.tables.frames import ENDS, named_after, rows_of
from trainmark.tables.sections import Results
from trainmark.trainer import Trainer
from trainmark.variant import GROUP

NO_TEXTS = dict.fromkeys((*ENDS, "unit", "words", "verdict", "runs"), "")


def numbers_of(results: Results) -> Iterator[dict]:
    """Yield the numbers of a campaign in the order of its table, then texts on machines and versions, each with:

    key: such as "small/mnist-mlp-flux/digits/keras-jax-cpu/20/training_seconds/ratio/chainer-cpu".
    raw: its value in full; None of a ratio that is refused or withheld. Other missing numbers are left out.
    value, low, high: as texts, without a unit; low and high are "" if it has no interval.
    unit: such as "s"; "%" for shares, which are in percent; "" for ratios and losses.
    words: the value with its unit and interval, and whether it is of disturbed runs.
    verdict: of a ratio, or why it is missing. runs: how many runs, or pairs of runs, it comes from.
    source: the row of a table, such as "numbers.csv:17".
    disturbed: whether it is a time, or a number from times, of disturbed runs, alone or within bounds.
    """
    table, runs = results.numbers, results.runs
    named = table.assign(framework=named_after(table["framework"], table["variant"]))
    for line, row in enumerate(rows_of(named), start=2):
        texts = NO_TEXTS | {"verdict": row["verdict"]}
        if row["value"] is not None:
            texts |= {end: format_number(row, row[end]) for end in ENDS if row[end] is not None}
            texts |= {"unit": unit_in_words(row), "words": number_in_words(row), "runs": str(row["runs"] or "")}
        if row["value"] is not None or row["statistic"] in RATIOS:
            about = {"source": f"numbers.csv:{line}", "disturbed": row["disturbed_times"] or bool(row["bounded"])}
            yield {"key": key_of(row), "raw": row["value"], **texts, **about}
    columns = {"cpu": runs["cpu_model"].dropna(), "gpu": runs["gpu"].dropna(), "threads": runs["threads"].dropna()}
    texts = {f"machine/{name}": (listed(column.unique()), "") for name, column in columns.items() if len(column)}
    texts |= {f"version/{name}": (version, f"{name} ") for name, version in versions_of(runs).items()}
    for key, (text, before) in texts.items():
        about = {"value": text, "words": before + text, "source": "runs.parquet", "disturbed": False}
        yield {"key": key, "raw": text, **NO_TEXTS, **about}


def versions_of(runs: pd.DataFrame) -> dict[str, str]:
    """Return the versions of the packages that ran, by name; several of one package with "and"."""
    packages = pd.concat(["trainmark " + runs["trainmark"], runs["versions"].str.split(", ").explode()])
    names_and_versions = packages[packages != ""].drop_duplicates().str.rpartition(" ")
    return {str(name): listed(versions) for name, versions in names_and_versions.groupby(0, sort=False)[2]}


def key_of(row: Mapping) -> str:
    """Return the key of a row of numbers, whose framework is named after its variant as in `Section`.

    It is the setting and the metric; of all but medians also the statistic, and with what the number is compared.
    """
    statistic, compared = "" if row["statistic"] == "median" else row["statistic"], row["compared_with"]
    with suppress(ConfigError):  # a published result, or a training that a command is compared with
        compared = compared and str(Trainer.named(compared))
    parts = [*(row[name] for name in GROUP), Trainer.of(row), row["epochs"], row["metric"], statistic, compared]
    return "/".join(re.sub("[^A-Za-z0-9._-]+", "-", str(part)).strip("-") for part in parts if part)
