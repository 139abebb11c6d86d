"""Inline figures in Chromium: their texts have the size that they were drawn with, and their legends are switches."""

import matplotlib
import pytest
from figures_for_tests import made_up
from matplotlib.figure import Figure

from trainmark.report import embedded
from trainmark.report.figures import svg
from trainmark.report.figures.save import save_figure

SCRIPT = embedded.__file__.replace("embedded.py", "figure.js")

TEXTS_OUTSIDE = """() => [...document.querySelectorAll("svg text")].filter((text) => {
  const box = text.getBoundingClientRect(), whole = text.ownerSVGElement.getBoundingClientRect();
  return box.left < whole.left || box.right > whole.right || box.top < whole.top || box.bottom > whole.bottom;
}).map((text) => text.textContent)"""


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens a page with figures from files."""
    pages = []

    def open_page(*files):
        parts = [str(embedded._element(file, file.read_text(), f"e-r-d-{file.stem}")) for file in files]
        pages.append(browser.new_page(viewport={"width": 1000, "height": 900}))
        pages[-1].set_content(f"<style>svg {{ width: 900px; height: auto }}</style>{''.join(parts)}")
        pages[-1].add_script_tag(path=SCRIPT)
        return pages[-1]

    yield open_page
    for page in pages:
        page.close()


def test_no_text_of_a_figure_is_cut_off(opened, tmp_path):
    names = ["training_time", "tuning", "parity"]
    data = made_up(tmp_path, ["chainer", "keras-jax"], loops=["stock", "tuned"])
    for name in names:
        save_figure(name, data, [tmp_path / f"{name}.svg"])
    assert opened(*(tmp_path / f"{name}.svg" for name in names)).evaluate(TEXTS_OUTSIDE) == []


@pytest.fixture
def page(opened, tmp_path):
    """A figure with two trainers, of each of which there are two artists."""
    figure = Figure()
    axis = figure.subplots()
    for trainer in (0, 1):
        for part in (0, 1):
            label = f"{'ab'[trainer]} on cpu" if part == 0 else None
            axis.plot([1, 2], [trainer, part], "o-", label=label, gid=f"trainer-{trainer}-{part}")
    axis.plot([], [], label="cpu")
    figure.legend()
    svg.name_entries(figure, [("a on cpu", "cpu"), ("b on cpu", "cpu")])
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        figure.savefig(tmp_path / "dots.svg")
    return opened(tmp_path / "dots.svg")


def shown(page):
    """The artists that are shown."""
    return page.evaluate(
        "() => [...document.querySelectorAll('[id*=-trainer-]')]"
        ".filter((part) => part.style.display !== 'none').map((part) => part.id.match(/trainer-.*/)[0])"
    )


def test_a_click_on_a_name_or_its_mark_hides_a_trainer_and_shows_it_again(page):
    every = ["trainer-0-0", "trainer-0-1", "trainer-1-0", "trainer-1-1"]
    assert shown(page) == every
    page.get_by_role("switch", name="Show b on cpu").click()
    assert shown(page) == every[:2]
    assert page.get_by_role("switch", name="Show b on cpu").get_attribute("aria-checked") == "false"
    page.locator("[id$=legend-1-mark]").click(force=True)
    assert shown(page) == every


def test_a_name_of_several_trainers_hides_them_all(page):
    page.get_by_role("switch", name="Show cpu").click()
    assert shown(page) == []
    page.get_by_role("switch", name="Show a on cpu").click()
    page.get_by_role("switch", name="Show cpu").click()
    assert shown(page) == ["trainer-1-0", "trainer-1-1"]


@pytest.mark.parametrize("key", ["Enter", " "])
def test_a_key_hides_a_trainer_too(page, key):
    page.keyboard.press("Tab")
    page.keyboard.press(key)
    assert shown(page) == ["trainer-1-0", "trainer-1-1"]
    page.keyboard.press(key)
    assert len(shown(page)) == 4
