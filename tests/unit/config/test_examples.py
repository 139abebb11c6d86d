"""The shipped catalogue, and an example config for each of its datasets."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from trainmark.config.catalogue_check import check_catalogue
from trainmark.config.load import REPOSITORY, load_config, read_yaml
from trainmark.datasets.catalogue import kind_of, sample_shape

CATALOGUE = read_yaml(REPOSITORY / "config" / "datasets.yaml")
EXAMPLES = sorted((REPOSITORY / "config" / "examples").iterdir())
FILES = [(name, file) for name, entry in CATALOGUE.items() for file in entry.get("files", [])]


# --- the catalogue ------------------------------------------------------------------------------------------------


def test_the_shipped_catalogue_passes(schema):
    assert check_catalogue(CATALOGUE, Path("datasets.yaml"), schema) is None


def test_kind_and_shape_of_every_dataset():
    small, photographs, texts = ("images", (1, 28, 28)), ("image_lists", (3, 256, 256)), ("tokens", (400,))
    assert {name: (kind_of(name, CATALOGUE), sample_shape(name, CATALOGUE)) for name in CATALOGUE} == {
        **dict.fromkeys(["digits", "mnist", "fashion-mnist", "synthetic-images"], small),
        **dict.fromkeys(["imagenette-160", "imagenette-320", "imagenette", "ilsvrc2012", "image-folder"], photographs),
        **dict.fromkeys(["mini-imagenet-8", "mini-imagenet-16", "mini-imagenet-32"], photographs),
        **dict.fromkeys(["imdb", "imdb-keras"], texts),
    }


def test_every_title_is_unique():
    titles = [entry["title"] for entry in CATALOGUE.values()]
    assert sorted(set(titles)) == sorted(titles)


def test_every_file_but_imagenets_can_be_fetched():
    """ILSVRC2012's archives may not be passed on; every other file has a public address that ends in its name."""
    without = {name for name, file in FILES if not file["urls"]}
    assert without == {"ilsvrc2012"}
    for name, file in FILES:
        for url in map(urlsplit, file["urls"]):
            assert url.scheme in ("http", "https") and url.netloc, (name, url)
            assert url.path.endswith(f"/{file['name']}"), (name, url)
            assert not (url.query or url.username or url.fragment), (name, url)


def test_no_two_files_are_one():
    """A checksum that stands at two files was copied and not changed."""
    checksums = [file.get("sha256") or file["md5"] for _, file in FILES]
    assert len(set(checksums)) == len(checksums)


# --- the examples -------------------------------------------------------------------------------------------------


def test_every_dataset_has_an_example_of_its_name():
    assert {example.stem for example in EXAMPLES} == set(CATALOGUE)
    assert {example.suffix for example in EXAMPLES} == {".yaml"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_asks_for_its_dataset(example):
    """One of the same name; or, for images of one's own, one of the same format."""
    config, catalogue = load_config([example])
    asked = set(config["prepare"]).union(*(part["datasets"] for part in config["experiments"].values()))
    assert len(asked) == 1
    name = asked.pop()
    if example.stem == "image-folder":
        assert catalogue[name]["format"] == CATALOGUE["image-folder"]["format"] == "image_folder"
    else:
        assert name == example.stem


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_says_how_it_is_run(example):
    commands = re.findall(r"^# Run: (.*)$", example.read_text(), re.MULTILINE)
    assert len(commands) == 1
    options = re.fullmatch(r"snakemake --cores \d+( --resources gpu=1)? --configfile (\S+)", commands[0])
    assert options and options[2] == example.relative_to(REPOSITORY).as_posix()
    assert bool(options[1]) == bool(load_config([example])[0]["experiments"]), "only a training takes a GPU"
