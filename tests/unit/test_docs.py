"""The pages for people: links lead somewhere, the index has every page, and lists are complete."""

import json
import re

import gpu_stages
import pytest
import yaml
from harness import REPOSITORY
from records_for_tests import record, written_tables

from trainmark.cluster.schedulers import ENDED, SCHEDULERS
from trainmark.cluster.site import Site
from trainmark.datasets.catalogue import known_formats
from trainmark.frameworks.registry import known_frameworks
from trainmark.networks.ops import OPS
from trainmark.parity.certified_steps import STAGES
from trainmark.parity.compare import NOT_CERTIFIED, PARITY_CLASSES
from trainmark.plan.figures import known_figures
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.command import FORMATS, METRICS, PLACEHOLDERS
from trainmark.records.record import PHASES
from trainmark.report.first_screen import FirstScreen, summary_json
from trainmark.tables.curves import curves_table
from trainmark.tables.numbers import numbers_table
from trainmark.tables.trainers import parity_table
from trainmark.trainer import LOOPS

PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted((REPOSITORY / "docs").glob("*.md"))]
README = PAGES[0].read_text(encoding="utf-8")
READING_SPEED = 238
"""Words a minute, silently, of non-fiction (Brysbaert 2019, Journal of Memory and Language 109, 104047)."""


LIBRARY = REPOSITORY / "workflow" / "scripts" / "trainmark"
CATALOGUE = yaml.safe_load((REPOSITORY / "config" / "datasets.yaml").read_text())
SETTINGS = yaml.safe_load((REPOSITORY / "config" / "schema.yaml").read_text())["$defs"]["experiment"]["properties"]
BUILT_IN_FORMATS = {"digits", "encoded_reviews", "ilsvrc2012", "reviews", "synthetic"}
"""Formats of entries of the catalogue, for which nobody writes an entry."""


def text_of(*paths):
    return "\n".join(file.read_text() for path in paths for file in sorted(REPOSITORY.glob(path)))


def cells(page, heading, columns=1):
    """The first columns of the tables whose first column has this heading."""
    tables = re.findall(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", text_of(page), re.MULTILINE)
    return " ".join(cell for table in tables for row in table.splitlines() for cell in row.split("|")[1 : columns + 1])


def listed(page, heading):
    """The names in backticks in the first column."""
    return re.findall(r"`\{?([^`}]+)\}?`", cells(page, heading))


def modules():
    """The library's packages, and its modules that are in none."""
    packages = {str(file.parent.relative_to(LIBRARY)) for file in LIBRARY.glob("*/**/__init__.py")}
    return packages | {file.stem for file in LIBRARY.glob("*.py")} - {"__init__"}


LISTS = {
    "modules": (listed("docs/structure.md", "package, module"), modules()),
    "rules": (listed("docs/structure.md", "rule"), re.findall(r"^rule (\w+):", text_of("workflow/rules/*"), re.M)),
    "results": (
        [path.split("/")[0] for path in listed("docs/results.md", "path in `results/`")],
        re.findall(r"(?:results|\{RESULTS\})/([a-z_]+(?:\.json)?)", text_of("workflow/rules/*", "workflow/**/*.py"))
        + re.findall(r'^[A-Z]+ = f?"([a-z]+)/', text_of("workflow/scripts/trainmark/plan/products.py"), re.M),
    ),
    "keys of summary.json": (
        listed("docs/results.md", "key"),
        json.loads(summary_json(FirstScreen("", [], "", [], [], [], "", [], {}), [])),
    ),
    "figures": (listed("docs/results.md", "figure"), known_figures()),
    "recipes": (listed("docs/recipes.md", "recipe"), RECIPES),
    "rules of optimizers": (listed("docs/recipes.md", "rule"), SETTINGS["optimizer"]["properties"]["rule"]["enum"]),
    "frameworks": (
        re.findall(r"`([\w-]+)`", " ".join(re.findall(r"^Frameworks: .*", text_of("docs/recipes.md"), re.M))),
        known_frameworks(),
    ),
    "datasets": (listed("docs/datasets.md", "dataset"), CATALOGUE),
    "datasets to train on": (
        listed("docs/recipes.md", "dataset"),
        set(listed("docs/recipes.md", "dataset")) & set(CATALOGUE),
    ),
    "formats": (
        re.findall(r"`(\w+)`", " ".join(re.findall(r"^\*\*.*?\*\* \((.*?)\)", text_of("docs/datasets.md"), re.M))),
        set(known_formats()) - BUILT_IN_FORMATS,
    ),
    "expected numbers": (
        listed("docs/expected.md", "recipe"),
        yaml.safe_load(text_of("config/expected.yaml"))["experiments"],
    ),
    "placeholders": (listed("docs/commands.md", "placeholder"), PLACEHOLDERS),
    "formats of metrics": (listed("docs/commands.md", "format"), FORMATS),
    "metrics": (listed("docs/commands.md", "metric"), METRICS),
    "phases": (listed("docs/*.md", "phase"), PHASES),
    "loops": (listed("docs/*.md", "loop"), LOOPS),
    "stages": (listed("docs/parity.md", "stage"), STAGES),
    "parity classes": (listed("docs/parity.md", "class"), [*PARITY_CLASSES, NOT_CERTIFIED]),
    "iterators": (listed("docs/loading.md", "`iterator`"), SETTINGS["loader"]["properties"]["iterator"]["enum"]),
    "stores": (listed("docs/loading.md", "`store`"), SETTINGS["loader"]["properties"]["store"]["enum"]),
    "keys of a site": (listed("docs/clusters.md", "key"), Site.__dataclass_fields__),
    "values for a scheduler": (
        re.findall(r"`(\w+)[`:]", cells("docs/clusters.md", "value", columns=4)),
        set().union(*(one.names for one in SCHEDULERS.values())),
    ),
    "ends of a job": (re.findall(r"\w+", cells("docs/clusters.md", "it says")), ENDED),
    "GPU tests": (listed("CONTRIBUTING.md", "part"), gpu_stages.PARTS),
    "tests": (
        listed("CONTRIBUTING.md", "target"),
        [f"make {name}" for name in re.findall(r"^(test-[a-z-]+):", text_of("Makefile"), re.M)],
    ),
}


@pytest.mark.parametrize("kind", LISTS)
def test_lists_are_complete(kind):
    """Each list of a page, and what the code has."""
    in_page, in_code = map(set, LISTS[kind])
    assert in_page == in_code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_files_and_targets_exist(page):
    text = page.read_text(encoding="utf-8")
    written_there = {*re.findall(r"^# (\S+)$", text, re.MULTILINE), "config/site.yaml", "envs/images.yaml"}
    files = re.findall(r"(?<![\w/.<>-])((?:tests|workflow|config|envs|profiles)/[\w./-]*\w)", text)
    assert [file for file in files if not (REPOSITORY / file).exists() and file not in written_there] == []
    targets = re.findall(r"(?:`|^)make ([a-z][a-z-]*)", text, re.MULTILINE)
    assert set(targets) - {"bench-"} <= set(re.findall(r"^([a-z][a-z-]*):", text_of("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CHANGELOG.md"], ids=lambda page: page.name)
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


def test_the_readme_shows_the_call_of_the_page_on_it():
    """`make shown` writes both, and the picture of its report."""
    (shown,) = re.findall(r"^```\n(digits: .*?)^```$", README, re.MULTILINE | re.DOTALL)
    page = (REPOSITORY / "docs" / "terminal.md").read_text(encoding="utf-8").splitlines()
    assert set(shown.splitlines()) <= set(page)
    (experiment,) = yaml.safe_load(text_of("config/config.yaml"))["experiments"].values()
    assert set(experiment["frameworks"]) == {line.split()[0] for line in shown.splitlines() if " cpu   " in line}


def test_the_readme_takes_three_minutes():
    text = re.sub(r"```.*?```|\(.*?\)", "", README, flags=re.DOTALL)
    assert len(text.split()) <= 3 * READING_SPEED


def number_of(text):
    """A number as a page writes it, or None."""
    return float(text) if text else None


def test_the_page_has_every_layer_with_its_attributes_and_their_defaults():
    rows = re.findall(r"^\|.*\| (`[A-Z].*) \| (.*?) ?\|$", text_of("docs/pytorch_and_jax.md"), re.MULTILINE)
    shown = {op: attributes for ops, attributes in rows for op in re.findall(r"`(\w+)`", ops)}
    assert {*OPS} - {*shown} == {"BinaryLogits"}, "PyTorch has no layer for it"
    for op, attributes in shown.items():
        defaults = {
            name: number_of(found[1])
            for name in OPS[op].attributes
            if (found := re.search(rf"\b{name}\b`?(?: (\.?\d[\d.e-]*))?", attributes))
        }
        assert defaults == {name: one.default for name, one in OPS[op].attributes.items()}, op


def test_every_column_of_the_tables_is_documented(tmp_path):
    """docs/columns.md names each column, those of phases by a pattern, and none that no table has."""
    documented = listed("docs/columns.md", "column")
    patterns = [re.sub("<[a-z]+>", r"[a-z0-9_]+", re.escape(name).replace(r"\<", "<")) for name in documented]
    by_path, runs = written_tables(tmp_path, record("a"), record("b"))
    columns = {name for table in (runs, curves_table(by_path), numbers_table(runs, [])) for name in table}
    assert {name for name in columns if not any(re.fullmatch(one, name) for one in patterns)} == set()
    assert {one for one in patterns if not any(re.fullmatch(one, name) for name in columns)} == set()
    page = text_of("docs/columns.md")
    assert [name for name in parity_table([]) if f"`{name}`" not in page] == []
