"""What do readers of large campaigns see first, and how far must they scroll? `make bench-screens` prints it.

The campaigns are those of fabricated_campaigns.py. Their pages are opened in Debian's Chromium, which needs Playwright.
"""

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

from fabricated_campaigns import CAMPAIGNS, write_campaign
from tabulate import tabulate

CHROMIUM = Path("/usr/bin/chromium")

SCREENS = ((1440, 900), (1024, 768), (360, 740))
"""Width and height in CSS pixels."""

PARTS = {
    "warning": ".warnings li, .warning",
    "verdict": "[data-statistic=verdict]",
    "comparisons": "h3:text('Faster or slower?')",
}
"""Playwright's selectors of the parts of a page whose places are printed."""

SIZES = """() => {
  const page = document.documentElement, sections = [...document.querySelectorAll("section")]
  const heights = sections.map(one => [Math.round(one.getBoundingClientRect().height), one.id])
  return [page.scrollHeight, ...heights.sort((a, b) => b[0] - a[0])[0], page.scrollWidth > page.clientWidth]
}"""
"""Height of the page, height and id of its tallest section, and whether it scrolls sideways."""

TALLEST_PICTURE = 16384
"""Chromium paints no more pixels below each other than this."""


@contextmanager
def chromium() -> Iterator:
    """Debian's Chromium, driven by Playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # As root, and where /dev/shm is small.
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = driver.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield browser
        browser.close()


def shown(tab) -> list:
    """The top of the first visible element of each of PARTS, in pixels, and the SIZES of the page."""
    found = [tab.locator(selector).locator("visible=true") for selector in PARTS.values()]
    tops = [round(one.first.bounding_box()["y"]) if one.count() else "none" for one in found]
    return [*tops, *tab.evaluate(SIZES)]


def printed_pages(tab) -> int:
    """The number of pages of A4 paper."""
    return len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4")))


def look(browser, page: Path, pictures: Path | None) -> Iterator[list]:
    """Yield a row of the table for each screen. pictures: the folder for a picture of each; None for none."""
    for (width, height), scheme in product(SCREENS, ("light", "dark")):
        tab = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        tab.goto(page.as_uri())
        yield [f"{width} x {height} {scheme}", *shown(tab)]
        if pictures:
            tab.screenshot(path=pictures / f"{width}-{scheme}.png")
        if pictures and (width, scheme) == (1440, "light"):
            clip = {"x": 0, "y": 0, "width": width, "height": min(tab.evaluate(SIZES)[0], TALLEST_PICTURE)}
            tab.screenshot(path=pictures / f"{width}-{scheme}-whole.png", full_page=True, clip=clip)
        tab.close()


def copy_figures(results: Path, folder: Path) -> None:
    """Copy all figures of a results folder into one folder, with their group in their names, to look through them."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in sorted(results.glob("figures/**/*.png")):
        shutil.copy(file, folder / "-".join(file.relative_to(results / "figures").parts))


def measure(folder: Path, *, with_pictures: bool) -> None:
    """Write all campaigns under a folder, and print the table; with pictures, write these beside the campaigns."""
    rows, lines = [], []
    with chromium() as browser:
        for name in CAMPAIGNS:
            results, begin = folder / "campaigns" / name, time.monotonic()
            write_campaign(name, results)
            page, seconds = results / "report" / "index.html", time.monotonic() - begin
            pictures = folder / "pictures" / name if with_pictures else None
            if pictures:
                copy_figures(results, pictures / "figures")
            size = f"{page.stat().st_size / 1e6:.2f}"
            rows += [[name, *row, size] for row in look(browser, page, pictures)]
            tab = browser.new_page()
            tab.goto(page.as_uri())
            lines.append(f"{name}: {printed_pages(tab)} printed pages; written in {seconds:.0f} s")
            tab.close()
    headings = ["campaign", "screen", *PARTS, "page", "tallest section", "its id", "scrolls sideways", "MB"]
    print(tabulate(rows, headings), *lines, sep="\n")


def main() -> None:
    """Measure in the folder that is named, which keeps campaigns and pictures, or in a temporary one."""
    if sys.argv[1:]:
        measure(Path(sys.argv[1]).resolve(), with_pictures=True)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            measure(Path(temporary), with_pictures=False)


if __name__ == "__main__":
    main()
