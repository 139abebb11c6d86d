"""How long do tables and report of 10,000 records take, and how large is the page? `make bench-report` prints it.

The records are synthetic: 2 frameworks on 2 devices, 5 numbers of epochs, 2 recipes, 250 repeats. The page
is opened in Debian's Chromium if it and Playwright are there.
"""

import resource
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from random import Random

from fabricated_campaigns import campaign_of, collect, draw, report, write_sources
from records_for_tests import record
from screens import CHROMIUM, chromium

RECORDS = 10_000
RECIPES = ("mnist-mlp-flux", "mnist-mlp-chainer")
FRAMEWORKS = ("chainer", "keras-jax")
DEVICES = ("cpu", "gpu")
EPOCHS = (1, 2, 5, 10, 20)


def many_records(folder: Path) -> None:
    """Write a results folder with RECORDS records, and all that collecting and reporting them needs."""
    repeats = RECORDS // (len(RECIPES) * len(FRAMEWORKS) * len(DEVICES) * len(EPOCHS))
    experiment = {"recipes": [*RECIPES], "frameworks": [*FRAMEWORKS], "devices": [*DEVICES], "epochs": [*EPOCHS]}
    experiment |= {"repeats": repeats, "keep_weights": False}
    campaign = campaign_of({"many": experiment})
    write_sources(folder, campaign, _records(campaign), {})


def _records(campaign):
    random = Random(1)
    for number, run in enumerate(campaign.runs):
        seconds = random.gauss(1.0, 0.05) * (1.1 if run.trainer.framework == "chainer" else 1.0)
        yield record(
            run.trainer.framework, run.repeat, run.trainer.device, run.epochs, seconds=seconds,
            experiment="many", recipe=run.recipe,
            changes={"sessions.0.held_seconds": [float(number), number + 0.5]},
        )  # fmt: skip


@contextmanager
def timed(what: str):
    """Print the seconds of the body, and the peak memory of this process so far."""
    begin = time.monotonic()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {time.monotonic() - begin:.1f} s, peak {peak:.0f} MiB", flush=True)


def browse(page: Path) -> None:
    """Open, sort and filter the page in Chromium."""
    with chromium() as browser:
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        with timed("opening the page"):
            tab.goto(page.as_uri())
        runs = tab.locator("#runs")
        runs.locator("details.long > summary").click()
        with timed("sorting the list of runs"):
            runs.get_by_role("button", name="training, s").click()
        with timed("filtering the list of runs"):
            runs.get_by_role("searchbox").fill("keras-jax gpu flux")
            runs.get_by_text(f"{RECORDS // 8:,} of {RECORDS:,} rows").wait_for()


def main() -> None:
    """Write the records; collect, draw and report them; print seconds, peak memory and the page's size."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with timed(f"writing {RECORDS:,} records"):
            many_records(folder)
        with timed("collecting"):
            collect(folder)
        with timed("drawing"):
            draw(folder)
        with timed("the report"):
            page = report(folder)
        print(f"the page: {page.stat().st_size / 1e6:.2f} MB", flush=True)
        if find_spec("playwright") and CHROMIUM.exists():
            browse(page)


if __name__ == "__main__":
    main()
