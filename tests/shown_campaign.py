"""Run the default experiment once, and show it in README.md, docs/terminal.md and docs/report.png: `make shown`.

All three come from this one call, in a folder that is emptied first. Nothing is rewritten if a run was disturbed: leave
the machine alone, and call again.
"""

import json
import re
import shutil
import subprocess
import sys
import time

from harness import REPOSITORY, environment
from playwright.sync_api import sync_playwright

FOLDER = REPOSITORY / "build" / "shown"
WIDTH = 1200
"""Of the picture, in pixels."""

RUNS_SHOWN = 4
"""Of the lines on runs, the first so many are shown, and the last."""

IN_README = ("digits: ", "Ratios of ")
"""Beginnings of the paragraphs that the README shows."""


def called() -> tuple[str, float]:
    """Return what the call prints, with the paths of the pages, and its seconds. Exits if the call fails."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    command = ["snakemake", "--directory", str(FOLDER), "--cores", "4", "--resources", "gpu=1"]
    start = time.monotonic()
    own = environment()  # without settings of libraries, which would be a warning of the report
    own.pop("PYTHONPATH", None)
    out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = subprocess.run(command, cwd=REPOSITORY, env=own, check=False, **out)
    if done.returncode:
        sys.exit(done.stdout)
    return done.stdout.replace(str(FOLDER), "/home/me/trainmark"), time.monotonic() - start


def check_quiet() -> None:
    """Exit if a run was disturbed."""
    records = [json.loads(file.read_text()) for file in (FOLDER / "results" / "runs").rglob("record.json")]
    if disturbed := sum(bool(record["disturbed"]) for record in records):
        sys.exit(
            f"{disturbed} of {len(records)} runs were disturbed, and nothing is shown: call again on a quiet machine"
        )


def show(page: str, beginning: str, text: str) -> None:
    """Put a text into the block of a page that begins so."""
    file = REPOSITORY / page
    pattern = rf"(?<=^```\n){re.escape(beginning)}.*?(?=^```$)"
    content, count = re.subn(
        pattern, lambda _: f"{text.strip()}\n", file.read_text(), count=1, flags=re.MULTILINE | re.DOTALL
    )
    assert count, f"{page} has no block that begins with {beginning!r}"
    file.write_text(content)


def draw() -> None:
    """Take the picture of the report's first screen."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto((FOLDER / "results" / "report" / "index.html").as_uri())
        box = page.locator("#first").bounding_box()
        assert box
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": box["y"] + box["height"] + 15}
        page.screenshot(path=REPOSITORY / "docs" / "report.png", clip=clip)
        browser.close()


def main() -> None:
    """Run the campaign and rewrite both pages and the picture."""
    printed, seconds = called()
    check_quiet()
    lines = printed.splitlines()
    of_runs = [number for number, line in enumerate(lines) if re.match(r"run \d+ of \d+: ", line)]
    show("docs/terminal.md", "Using workflow", "\n".join([*lines[: of_runs[RUNS_SHOWN]], "...", *lines[of_runs[-1] :]]))
    page = REPOSITORY / "docs" / "terminal.md"
    took = f"{int(seconds) // 60} min {int(seconds) % 60} s"
    page.write_text(re.sub(r"(of the default experiment in )\d+ min \d+ s", rf"\g<1>{took}", page.read_text()))
    show("README.md", IN_README[0], "\n\n".join(part for part in printed.split("\n\n") if part.startswith(IN_README)))
    draw()


if __name__ == "__main__":
    main()
