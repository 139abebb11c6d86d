"""Results folders of small campaigns that nobody trained, for the tests of what reads several campaigns."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

from fabricated_campaigns import _made, _write_evaluations, campaign_of, collect, write_sources
from records_for_tests import changed, held_from

from trainmark.config.load import keys_that_decide

SECONDS = {"chainer": (0.5, 0.25), "keras-jax": (1.5, 0.15)}
"""Of each trainer, the seconds to the end of the first step and of an epoch. Those of a run have a noise of 2 %."""


def write_other(
    folder: Path,
    *,
    factor: float = 1.0,
    began: str = "2026-01-05T00:00:00+00:00",
    versions: Mapping[str, str] | None = None,
    seed: int = 0,
    repeats: int = 8,
    changes: Mapping | None = None,
    experiment: Mapping | None = None,
) -> Path:
    """Write the results folder of a campaign of two trainers up to its tables, and return it.

    factor: by how much its times are multiplied. began: when its first run started; each takes a minute.
    versions: of packages, in place of those of every run. seed: of the noise of its times and results.
    changes: of every record, by the path of keys, as in {"provenance.cpu_model": "Z"}.
    experiment: keys of the experiment, in place of those here.
    """
    lists = {"recipes": ["mnist-mlp-flux"], "frameworks": [*SECONDS], "devices": ["cpu"], "epochs": [3]}
    campaign = campaign_of({"small": lists | {"repeats": repeats} | dict(experiment or {})})
    random, records = Random(seed), []
    for number, run in enumerate(campaign.runs):
        settings = campaign.config["experiments"][run.experiment]
        started = (datetime.fromisoformat(began) + timedelta(minutes=number)).isoformat()
        own = {
            "settings": {key: settings[key] for key in keys_that_decide(["training", "record"])},
            "provenance.started": started, "sessions.0.started": started, "sessions.0.call": began,
        } | ({"provenance.versions": {**versions}} if versions else {})  # fmt: skip
        seconds = tuple(factor * part for part in SECONDS[run.trainer.framework])
        made = held_from(_made(run, "", seconds, random, settings, own), 1000.0 * number)
        records.append(changed(made, changes or {}))
    write_sources(folder, campaign, records, {})
    _write_evaluations(folder, campaign, records)
    collect(folder)
    return folder
