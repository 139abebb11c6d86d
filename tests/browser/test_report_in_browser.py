"""The report in Chromium: offline, sorted and filtered, by keyboard, for screen readers, on paper, on small screens."""

import pytest
from records_for_tests import disturbed, diverged, place_of, record
from report_page import Page, experiment

SCREENS = [(360, "light"), (1440, "dark")]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """The file of a report with several sections and warnings, in a results folder."""
    folder = tmp_path_factory.mktemp("results")
    page = Page(
        folder, *experiment(), record("c", 1, changes=disturbed(foreign_seconds=0.5)), diverged("c", 2), drawn=True
    )
    file = folder / "report" / "index.html"
    file.parent.mkdir()
    file.write_text(page.text)
    for one in page.records.values():
        log = (folder / "logs" / "train" / place_of(one).removeprefix("runs/")).parent.with_suffix(".log")
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"log of {one['run']['id']}")
    return file


@pytest.fixture
def opened(browser, report):
    """Opens the report; at the end, checks that nothing but files was asked for and that the console is empty."""
    contexts, asked, printed = [], [], []

    def open_report(width=1440, scheme="light"):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme))
        contexts[-1].set_default_timeout(10_000)
        page = contexts[-1].new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: printed.append(message.text))
        page.on("pageerror", lambda error: printed.append(str(error)))
        page.goto(report.as_uri())
        return page

    yield open_report
    for context in contexts:
        context.close()
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []
    assert [url for url in asked if url.endswith((".js", ".css", ".png", ".svg"))] == []
    assert printed == []


def table(page, name):
    """The first table whose region's name begins so, and its bar above."""
    region = page.locator(f'[role=region][aria-label^="{name}"]').first
    region.evaluate("at => { for (; at; at = at.parentElement) if (at.tagName === 'DETAILS') at.open = true }")
    return region, region.locator("xpath=preceding-sibling::p[1]")


def column(region, number):
    """The texts of a column of the rows that are shown."""
    return region.locator(f"tbody tr:visible > :nth-child({number})").all_inner_texts()


@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_it_opens_from_disk_and_does_not_scroll_sideways(opened, width, scheme):
    page = opened(width, scheme)
    assert page.locator("h1").inner_text() == "a, b and c on cpu and gpu"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for details in page.locator("details:visible").all()[:40]:
        details.evaluate("one => one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "when unfolded"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), SCREENS)
def test_axe_finds_nothing_serious(opened, width, scheme):
    axe = pytest.importorskip("axe_core_python.sync_playwright", reason="axe-core-python is not installed").Axe()
    page = opened(width, scheme)
    page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    found = axe.run(page)
    assert len(found["passes"]) > 20
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]][:3])
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_a_table_sorts_by_numbers_with_texts_last_and_says_so(opened):
    region, _ = table(opened(), "Table of runs")
    button = region.get_by_role("button", name="test loss")
    for order in ("ascending", "descending"):
        button.focus()
        button.press("Enter")
        assert region.locator("th[aria-sort]").get_attribute("aria-sort") == order
        texts = column(region, 11)
        numbers = [float(text) for text in texts if text[0].isdigit()]
        assert numbers == sorted(numbers, reverse=order == "descending")
        assert len(set(numbers)) > 1
        assert texts[len(numbers) :] and not any(text[0].isdigit() for text in texts[len(numbers) :])
    region.get_by_role("button", name="run", exact=True).click()
    assert column(region, 1) == [str(number) for number in range(1, 36)]


def test_a_table_filters_by_words_with_a_count(opened):
    region, bar = table(opened(), "Table of runs")
    bar.get_by_role("searchbox").fill("memory Out of")
    bar.get_by_text("1 of 35 rows").wait_for()
    assert column(region, 7) == ["out of memory (warm up)"]
    bar.get_by_role("searchbox").fill("")
    bar.get_by_text("35 of 35 rows").wait_for()


def test_a_row_links_to_its_record_and_its_log(opened):
    page = opened()
    table(page, "Table of runs")
    row = page.locator("#run-7")
    number_of_run, framework = row.locator("th").inner_text(), row.locator("td").nth(1).inner_text()
    assert number_of_run == "7"
    for name in ("record", "log"):
        table(page, "Table of runs")
        with page.expect_navigation():
            page.locator("#run-7").get_by_role("link", name=name).click()
        assert f"/{framework}-gpu/" in page.locator("body").inner_text()
        page.go_back()


def test_a_link_shows_the_row_that_a_filter_hides(opened):
    page = opened()
    region, bar = table(page, "Table of runs")
    bar.get_by_role("searchbox").fill("nothing")
    bar.get_by_text("0 of 35 rows").wait_for()
    page.evaluate("location.hash = '#run-3'")
    region.locator("#run-3").wait_for()


def test_paper_has_the_folded_parts_and_no_controls(opened):
    page = opened()
    page.emulate_media(media="print")
    assert page.locator("#reproduce pre").bounding_box()["height"] > 100
    assert not page.locator("nav").is_visible()
    assert page.get_by_role("searchbox").count() == 0
    assert len(page.pdf()) > 10_000
