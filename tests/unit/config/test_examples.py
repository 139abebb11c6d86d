"""The shipped catalogue, and an example config for each of its datasets."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from trainmark.config.load import REPOSITORY, load_config, read_yaml
from trainmark.datasets.catalogue import kind_of, sample_shape
from trainmark.plan.matrix import expand_runs, with_devices
from trainmark.recipes.catalogue import RECIPES

CATALOGUE = read_yaml(REPOSITORY / "config" / "datasets.yaml")
EXAMPLES = sorted((REPOSITORY / "config" / "examples").iterdir())
FILES = [(name, file) for name, entry in CATALOGUE.items() for file in entry.get("files", [])]


# --- the catalogue ------------------------------------------------------------------------------------------------


def test_kind_and_shape_of_every_dataset():
    small, photographs, texts = ("images", (1, 28, 28)), ("image_lists", (3, 256, 256)), ("tokens", (400,))
    assert {name: (kind_of(name, CATALOGUE), sample_shape(name, CATALOGUE)) for name in CATALOGUE} == {
        **dict.fromkeys(["digits", "mnist", "fashion-mnist", "synthetic-images"], small),
        **dict.fromkeys(["imagenette-160", "imagenette-320", "imagenette", "ilsvrc2012", "image-folder"], photographs),
        **dict.fromkeys(["mini-imagenet-8", "mini-imagenet-16", "mini-imagenet-32"], photographs),
        **dict.fromkeys(["imdb", "imdb-keras"], texts),
    }


def test_every_file_but_imagenets_can_be_fetched():
    """ILSVRC2012's archives may not be passed on; every other file has a public address that ends in its name."""
    without = {name for name, file in FILES if not file["urls"]}
    assert without == {"ilsvrc2012"}
    for name, file in FILES:
        for url in map(urlsplit, file["urls"]):
            assert url.scheme in ("http", "https") and url.netloc, (name, url)
            assert url.path.endswith(f"/{file['name']}"), (name, url)
            assert not (url.query or url.username or url.fragment), (name, url)


# --- the examples -------------------------------------------------------------------------------------------------


def test_every_dataset_has_an_example_of_its_name():
    assert {example.stem for example in EXAMPLES} == set(CATALOGUE)
    assert {example.suffix for example in EXAMPLES} == {".yaml"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_asks_for_its_dataset_and_says_how_it_is_run(example):
    """The dataset has the same name; or, for images of one's own, the same format."""
    config, catalogue = load_config([example])
    (name,) = set(config["prepare"]).union(*(part["datasets"] for part in config["experiments"].values()))
    assert name == example.stem or catalogue[name]["format"] == example.stem.replace("-", "_") == "image_folder"
    (command,) = re.findall(r"^# Run: (.*)$", example.read_text(), re.MULTILINE)
    options = re.fullmatch(r"snakemake --cores \d+( --resources gpu=1)? --configfile (\S+)", command)
    assert options and options[2] == example.relative_to(REPOSITORY).as_posix()
    assert bool(options[1]) == bool(config["experiments"]), "only a training takes a GPU"


DOCUMENTS = [
    *((file.name, file.read_text()) for file in sorted((REPOSITORY / "config").rglob("*.yaml"))),
    *(
        (page.name, block)
        for page in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
        for block in re.findall(r"^```yaml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    ),
]


@pytest.mark.parametrize(("name", "text"), [one for one in DOCUMENTS if "\ndatasets:\n" in f"\n{one[1]}"])
def test_no_shipped_config_changes_a_dataset_of_the_catalogue(name, text):
    """The runs of all other configs on it would have other keys. Where the data are is the reader's."""
    entries = yaml.safe_load(text)["datasets"]
    assert all(entries[dataset].keys() <= {"folder", "packed"} for dataset in entries.keys() & CATALOGUE.keys())


# --- photographs --------------------------------------------------------------------------------------------------

CONFIGS = REPOSITORY / "config"
PAGE = (REPOSITORY / "docs" / "photographs.md").read_text(encoding="utf-8")


def runs_of(*files: Path) -> list:
    return expand_runs(with_devices(load_config(files)[0], gpu_found=False))


def test_the_imagenet_config_and_the_file_that_it_shows_for_other_photographs(tmp_path):
    runs = runs_of(CONFIGS / "imagenet.yaml")
    assert {run.recipe for run in runs} == {name for name in RECIPES if name.startswith("imagenet-")}
    assert {run.dataset for run in runs} == {"ilsvrc2012", *(f"mini-imagenet-{n}" for n in (8, 16, 32))}
    assert {run.epochs for run in runs} == {90}
    (shown,) = re.findall(r"^# small.yaml:\n((?:#   .*\n)+)", (CONFIGS / "imagenet.yaml").read_text(), re.MULTILINE)
    (tmp_path / "small.yaml").write_text(re.sub("^#   ", "", shown, flags=re.MULTILINE))
    runs = runs_of(CONFIGS / "imagenet.yaml", tmp_path / "small.yaml")
    assert len(runs) == 15 and {(run.dataset, run.epochs) for run in runs} == {("mine", 2)}


@pytest.mark.parametrize("entry", re.findall(r"\| `(\{format: .*?\})` \|", PAGE))
def test_the_entries_that_the_page_shows_are_right(entry):
    flowers = {"title": "F", "format": "image_folder", "folder": "photographs"}
    mine = {"title": "Mine", **yaml.safe_load(entry)}
    config = {"datasets": {"flowers": flowers, "mine": mine}, "prepare": ["mine"]}
    assert load_config([], config, "the page")[1]["mine"] == mine


@pytest.mark.parametrize("example", sorted((CONFIGS / "variants").iterdir()), ids=lambda file: file.stem)
def test_the_examples_of_variants_compare_two_frameworks(example):
    runs = runs_of(example)
    assert {run.trainer.framework for run in runs} == {"chainer", "flax"}
    assert {run.experiment.split(".")[0] for run in runs} == {example.stem}
