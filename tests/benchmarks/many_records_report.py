"""How long do tables and report of 10,000 records take, and how large is the page? `make bench-report` prints it.

The records are synthetic: 2 frameworks on 2 devices, 5 numbers of epochs, 2 recipes, 250 repeats. The page
is opened in Debian's Chromium if it and Playwright are there.
"""

import json
import resource
import tempfile
import time
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from random import Random

import matplotlib.pyplot as plt
from records_for_tests import certificate_of, record

from trainmark.config.load import load_config
from trainmark.files.seal import sealed
from trainmark.plan.campaign import Campaign
from trainmark.plan.figures import known_figures
from trainmark.plan.matrix import with_devices
from trainmark.plan.plan_file import read_plan, write_plan
from trainmark.report.collected import collected, write_tables
from trainmark.report.figures.data import read_data
from trainmark.report.figures.save import save_figures
from trainmark.report.page import render
from trainmark.tables.results import read_results
from trainmark.trainer import Trainer

RECORDS = 10_000
RECIPES = ("mnist-mlp-flux", "mnist-mlp-chainer")
FRAMEWORKS = ("chainer", "keras-jax")
DEVICES = ("cpu", "gpu")
EPOCHS = (1, 2, 5, 10, 20)
MANIFEST = {
    "kind": "images", "dataset": "digits", "title": "Handwritten digits", "samples": {"train": 1438, "test": 360},
    "sample_shape": [1, 28, 28], "classes": 10, "content_sha256": "0" * 64,
    "sources": [{"file": None, "from": "scikit-learn"}],
}  # fmt: skip


def many_records(folder: Path) -> None:
    """Write a results folder with RECORDS records, and all that collecting and reporting them needs."""
    repeats = RECORDS // (len(RECIPES) * len(FRAMEWORKS) * len(DEVICES) * len(EPOCHS))
    experiment = {"recipes": [*RECIPES], "frameworks": [*FRAMEWORKS], "devices": [*DEVICES], "epochs": [*EPOCHS]}
    experiment |= {"repeats": repeats, "keep_weights": False}
    config, catalogue = load_config([], {"experiments": {"many": experiment}})
    config = with_devices(config, gpu_found=True)
    campaign, random = Campaign(config, catalogue), Random(1)
    for number, run in enumerate(campaign.runs):
        seconds = random.gauss(1.0, 0.05) * (1.1 if run.trainer.framework == "chainer" else 1.0)
        made = record(
            run.trainer.framework, run.repeat, run.trainer.device, run.epochs, seconds=seconds,
            experiment="many", recipe=run.recipe,
            changes={"sessions.0.held_seconds": [float(number), number + 0.5]},
        )  # fmt: skip
        path = folder / "runs" / run.id / "record.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(made))
    trainers = [Trainer(*parts) for parts in product(FRAMEWORKS, DEVICES)]
    for recipe in RECIPES:
        path = folder / "certificates" / "many" / recipe / "digits.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(certificate_of(("many", recipe, "digits"), trainers, {})))
    prepared = folder / "datasets" / "digits" / "prepared"
    prepared.mkdir(parents=True)
    (prepared / "manifest.json").write_text(json.dumps(sealed(MANIFEST)))
    plt.imsave(prepared.parent / "mean.png", [[0, 1], [1, 0]])
    write_plan(folder / "plan.json", config, [run.id for run in campaign.runs], campaign.order)


def collect(folder: Path) -> None:
    """Make the tables, as the rule collect_records does."""
    plan = read_plan(folder / "plan.json")
    write_tables(*collected(plan, folder), plan, folder / "tables")


def draw(folder: Path) -> None:
    """Draw all figures, as the rule plot_figures does."""
    for recipe in RECIPES:
        group = "many", recipe, "digits"
        save_figures(read_data(group, folder), folder.joinpath("figures", *group), known_figures())


def report(folder: Path) -> Path:
    """Write the page, as the rule report does; return its path."""
    page = folder / "report" / "index.html"
    page.parent.mkdir(exist_ok=True)
    page.write_text(render(read_results(folder), read_plan(folder / "plan.json"))[0])
    return page


@contextmanager
def timed(what: str):
    """Print the seconds of the body, and the peak memory of this process so far."""
    begin = time.monotonic()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{what}: {time.monotonic() - begin:.1f} s, peak {peak:.0f} MiB", flush=True)


def browse(page: Path) -> None:
    """Open, sort and filter the page in Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": 1440, "height": 900})
        with timed("opening the page"):
            tab.goto(page.as_uri())
        runs = tab.locator("#runs")
        with timed("sorting the list of runs"):
            runs.get_by_role("button", name="training, s").click()
        with timed("filtering the list of runs"):
            runs.get_by_role("searchbox").fill("keras-jax gpu flux")
            runs.get_by_text(f"{RECORDS // 8:,} of {RECORDS:,} rows").wait_for()
        browser.close()


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
        if find_spec("playwright") and Path("/usr/bin/chromium").exists():
            browse(page)


if __name__ == "__main__":
    main()
