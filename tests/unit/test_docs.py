"""The pages for people: links lead somewhere, the index has every page, and columns.md every column."""

import re

import pytest
from harness import REPOSITORY
from records_for_tests import certificates_of, record, written_tables

from trainmark.tables.agreement import agreement_table
from trainmark.tables.break_even import break_even_table
from trainmark.tables.comparisons import comparisons_table, speed_ups_table
from trainmark.tables.curves import curves_table
from trainmark.tables.tables import summary_table
from trainmark.tables.targets import targets_table
from trainmark.tables.tidy import tidy_table
from trainmark.tables.tuning import tuning_table

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
READING_SPEED = 238
"""Words a minute, silently, of non-fiction (Brysbaert 2019, Journal of Memory and Language 109, 104047)."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            file, _, anchor = target.partition("#")
            path = (page.parent / file) if file else page
            assert path.exists(), target
            if anchor:
                titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles], target


def test_the_index_has_every_page():
    index = (REPOSITORY / "docs" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| \[(\w+\.md)\]", index, re.MULTILINE)) == {page.name for page in PAGES[2:]} - {
        "README.md"
    }


def test_the_readme_takes_three_minutes():
    text = re.sub(r"```.*?```|\(.*?\)", "", README, flags=re.DOTALL)
    assert len(text.split()) <= 3 * READING_SPEED


def test_every_column_of_the_tables_is_documented(tmp_path):
    """docs/columns.md names each column, those of phases and metrics by a pattern, and none that no table has."""
    rows = [line for line in (REPOSITORY / "docs" / "columns.md").read_text().splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    patterns = [re.sub("<[a-z]+>", r"[a-z0-9_]+", re.escape(name).replace(r"\<", "<")) for name in documented]
    by_path, runs = written_tables(tmp_path, record("a"), record("b"))
    compared = comparisons_table(runs, certificates_of(runs))
    derived = {
        "speed_ups": speed_ups_table(runs, certificates_of(runs), {}),
        "break_even": break_even_table(runs, compared),
        "targets": targets_table(runs),
    }
    tables = [runs, curves_table(by_path), summary_table(runs), compared, agreement_table(by_path), tuning_table([])]
    tables += derived.values()
    columns = {name for table in [*tables, tidy_table(runs, compared, **derived, currency="EUR")] for name in table}
    assert {name for name in columns if not any(re.fullmatch(one, name) for one in patterns)} == set()
    assert {one for one in patterns if not any(re.fullmatch(one, name) for name in columns)} == set()
