"""The pages of large campaigns: what a reader sees first, without scrolling, and how far there is to scroll."""

import re

import pytest
from fabricated_campaigns import write_campaign

SCREENS = ((1440, 900), (1280, 900), (1024, 768), (360, 740))
"""Width and height in CSS pixels."""

TALLEST_SECTION = 4000
"""In pixels at a width of 1440, for 12 trainers."""


@pytest.fixture(scope="module", params=["12 trainers", "failures"])
def campaign(request, tmp_path_factory):
    """(name, page) of a fabricated campaign with its figures."""
    folder = tmp_path_factory.mktemp("campaign")
    write_campaign(request.param, folder)
    return request.param, folder / "report" / "index.html"


@pytest.fixture
def opened(browser):
    """Opens a page in a window."""
    tabs = []

    def open_page(file, width=1440, height=900, **options):
        tabs.append(browser.new_page(viewport={"width": width, "height": height}, **options))
        tabs[-1].goto(file.as_uri())
        return tabs[-1]

    yield open_page
    for tab in tabs:
        tab.close()


def bottoms(tab, selector):
    """The lower ends of the elements, in pixels."""
    return [box["y"] + box["height"] for box in (one.bounding_box() for one in tab.locator(selector).all())]


@pytest.mark.slow
def test_warnings_and_answer_are_above_the_fold_and_sections_are_short(opened, campaign):
    name, page = campaign
    tab = opened(page)
    warnings = bottoms(tab, ".warnings > li")
    assert len(warnings) == 4 and max(warnings) <= 900
    assert bottoms(tab, ".answer")[0] <= 900 and max(bottoms(tab, ".trust a")) < 200
    assert max(tab.evaluate("[...document.querySelectorAll('section')].map(s => s.offsetHeight)")) <= TALLEST_SECTION
    assert page.stat().st_size < 4e6
    paper = re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4"))
    assert len(paper) <= (18 if name == "12 trainers" else 8)


@pytest.mark.slow
def test_no_screen_scrolls_sideways_and_the_navigation_stays_in_sight(opened, campaign):
    for width, height in SCREENS:
        tab = opened(campaign[1], width, height)
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        if width >= 1280:
            tab.evaluate("document.querySelectorAll('details.long').forEach(one => one.open = true)")
            cut = "[...document.querySelectorAll('.wide:has(.comparisons), .wide:has(.standing), nav')]"
            assert not tab.evaluate(f"{cut}.filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)")
        tab.evaluate("scrollTo(0, 3000)")
        assert tab.locator("nav").bounding_box()["y"] == 0
