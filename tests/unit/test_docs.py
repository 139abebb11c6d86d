"""The pages for people: links lead somewhere, the index has every page, and the README's example is a config."""

import re

import pytest
import yaml
from harness import REPOSITORY

from trainmark.config.load import load_config
from trainmark.plan.matrix import expand_runs, with_devices

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


def test_the_readmes_experiment_is_one_and_its_mistake_is_answered_so():
    (text,) = re.findall(r"```yaml\n# my.yaml\n(.*?)```", README, re.DOTALL)
    config, _ = load_config([], yaml.safe_load(text))
    assert len(expand_runs(with_devices(config, gpu_found=False))) == 2 * 3 * 2 * 3
