"""What a figure is drawn from: a section of the results, with its curves and the published results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from trainmark.config.references import read_references, references_of
from trainmark.errors import ConfigError
from trainmark.plan.figures import options_of_group
from trainmark.report.figures.options import DEFAULT_OPTIONS, FigureOptions
from trainmark.report.figures.style import MM, ONE_COLUMN, TWO_COLUMNS, Looks, looks_of
from trainmark.tables.frames import by_trainer
from trainmark.tables.sections import Section
from trainmark.trainer import Trainer


@dataclass(frozen=True)
class Data:
    """What the figures of a section are drawn from.

    curves: the table of curves, which may have those of other runs, too.
    references: published results of this recipe on this dataset (config/references.py).
    options: what the user chose of all figures.
    """

    section: Section
    curves: pd.DataFrame
    references: Sequence[Mapping] = ()
    options: FigureOptions = DEFAULT_OPTIONS

    @property
    def runs(self) -> pd.DataFrame:
        """The runs of the section."""
        return self.section.runs

    @cached_property
    def looks(self) -> Looks:
        """The look of each trainer. It is the same if others of its certificate are not drawn."""
        certified = [Trainer.parse(one["trainer"]) for one in (self.section.certificate or {}).get("trainers", [])]
        trainers = [trainer for trainer, _ in by_trainer(self.runs)]
        return looks_of(trainers, [*certified, *trainers])

    def width(self, columns: int) -> float:
        """Width of a figure in inches. columns: that it has on the screen if the user chose no width; in a paper 1."""
        own = ONE_COLUMN if columns == 1 or self.options.style == "plain" else TWO_COLUMNS
        return self.options.width_mm * MM if self.options.width_mm else own

    @property
    def references_by_epoch(self) -> Sequence[Mapping]:
        """The published results whose epochs are those of the runs: none for runs that restart their optimizer."""
        return () if self.runs["optimizer_restarts"].gt(0).any() else self.references

    @property
    def pairs(self) -> pd.DataFrame:
        """The parity of all pairs: of variants and commands, which have no certificate, that of their comparisons."""
        pairs = self.section.parity
        if pairs.empty:
            pairs = self.section.rows("ratio").rename(columns={"compared_with": "first"})
            names = [Trainer.of(row).name for row in pairs.to_dict("records")]
            pairs["second"] = pd.Series(names, pairs.index, dtype=str)
        return pairs[["first", "second", "parity", "reason"]].drop_duplicates()


def read_data(section: Section, folder: Path, options: FigureOptions = DEFAULT_OPTIONS) -> Data:
    """Read what the figures of a section are drawn from besides it, from its results folder.

    Raises ConfigError if the references can't be read, or if the options name a trainer that the section does not have.
    """
    if options.trainers is not None:
        section = of_trainers(section, options.trainers)
    curves = pd.read_parquet(folder / "tables" / "curves.parquet")
    return Data(section.named, curves, references_of(section.group, read_references()), options)


def options_of(section: Section, chosen: Mapping[str, Any]) -> FigureOptions:
    """The options of the figures of a section. chosen: the key `figures` of the config."""
    return FigureOptions.of(options_of_group(chosen, {str(trainer) for trainer, _ in by_trainer(section.runs)}))


def of_trainers(section: Section, chosen: Sequence[str]) -> Section:
    """The same, of these trainers alone; of a pair, both must be chosen. Raises ConfigError if one is not there.

    Speed-ups remain if their baseline is not chosen: they are of one trainer, and their axis names the baseline.
    """
    known = {str(trainer): trainer.name for trainer, _ in by_trainer(section.runs)}
    if unknown := [trainer for trainer in chosen if trainer not in known]:
        raise ConfigError(f"figures.trainers: found {', '.join(unknown)}; allowed: {', '.join(known)}")
    hidden = {name for written, name in known.items() if written not in chosen}

    def is_shown(row: Mapping) -> bool:
        own = [Trainer.of(row).name] if "framework" in row else [row["first"], row["second"]]
        return hidden.isdisjoint([*own, row.get("compared_with") if row.get("statistic") != "speed_up" else ""])

    tables: dict[str, Any] = {
        name: table.loc[[is_shown(row) for row in table.to_dict("records")]]
        for name, table in (("runs", section.runs), ("numbers", section.numbers), ("parity", section.parity))
    }
    pairs = {"pairs": [*filter(is_shown, (section.certificate or {"pairs": []})["pairs"])]}
    return replace(section, **tables, certificate=section.certificate and {**section.certificate, **pairs})
