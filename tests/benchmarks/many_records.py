"""How long do 10,000 records take: planning with all of them there, tables, figures and report?

`make bench-records` prints it, and how large the page is.

The records are synthetic: 2 frameworks on 2 devices, 5 numbers of epochs, 2 recipes, 250 repeats.
"""

import os
import resource
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from random import Random

from fabricated_campaigns import campaign_of, collect, draw, report, write_sources
from records_for_tests import held_from, record

from trainmark.plan.campaign import Campaign

RECORDS = 10_000
RECIPES = ("mnist-mlp-flux", "mnist-mlp-chainer")
FRAMEWORKS = ("chainer", "keras-jax")
DEVICES = ("cpu", "gpu")
EPOCHS = (1, 2, 5, 10, 20)


def many_records(folder: Path) -> Campaign:
    """Write a results folder with RECORDS records, and all that collecting and reporting them needs."""
    campaign = many_runs()
    write_sources(folder, campaign, _records(campaign), {})
    return campaign


def many_runs() -> Campaign:
    """The campaign of RECORDS runs."""
    repeats = RECORDS // (len(RECIPES) * len(FRAMEWORKS) * len(DEVICES) * len(EPOCHS))
    experiment = {"recipes": [*RECIPES], "frameworks": [*FRAMEWORKS], "devices": [*DEVICES], "epochs": [*EPOCHS]}
    experiment |= {"repeats": repeats, "keep_weights": False}
    return campaign_of({"many": experiment})


def _records(campaign):
    random = Random(1)
    losses = random.sample(range(RECORDS), RECORDS)  # no two alike: a check takes equal losses for a copied run
    for number, run in enumerate(campaign.runs):
        seconds = random.gauss(1.0, 0.05) * (1.1 if run.trainer.framework == "chainer" else 1.0)
        made = record(
            run.trainer.framework, run.repeat, run.trainer.device, run.epochs, seconds=seconds,
            experiment="many", recipe=run.recipe, loss=0.5 + 1e-5 * losses[number],
        )  # fmt: skip
        yield held_from(made, 1000.0 * number)


@contextmanager
def timed(what: str):
    """Print the seconds of the body, and the peak memory of this process so far."""
    begin = time.monotonic()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {time.monotonic() - begin:.1f} s, peak {peak:.0f} MiB", flush=True)


def main() -> None:
    """Write the records; collect, draw and report them; print seconds, peak memory and the page's size."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary, "results")
        os.chdir(temporary)
        with timed(f"writing {RECORDS:,} records"):
            many_records(folder)
        with timed("planning"):
            many_runs()
        with timed("collecting"):
            collect(folder)
        with timed("drawing"):
            draw(folder)
        with timed("the report"):
            page = report(folder)
        print(f"the page: {page.stat().st_size / 1e6:.2f} MB", flush=True)


if __name__ == "__main__":
    main()
