"""Datasets that a config adds to the catalogue, or changes in it."""

from pathlib import Path

import pytest
from config_messages import write

from trainmark.config.load import REPOSITORY, load_config, read_yaml
from trainmark.datasets.catalogue import kind_of, sample_shape
from trainmark.plan.matrix import expand_runs, with_devices

pytestmark = pytest.mark.usefixtures("in_tmp_path")

NOISE = "title: Noise, format: synthetic, image_shape: [1, 28, 28], classes: 4, samples: {train: 8, test: 4}, seed: 7"


def load(*texts: str) -> tuple[dict, dict]:
    files = [Path(write(text, f"{number}.yaml")) for number, text in enumerate(texts)]
    return load_config(files)


def shipped_catalogue() -> dict:
    return read_yaml(REPOSITORY / "config" / "datasets.yaml")


def test_an_own_dataset_is_trained_on_like_any_other():
    config, catalogue = load(
        f"datasets: {{noise: {{{NOISE}}}}}\nexperiments: {{e: {{batch_size: 8, datasets: [noise, mnist]}}}}\n"
    )
    assert catalogue["noise"] == config["datasets"]["noise"]
    assert {run.dataset for run in expand_runs(with_devices(config, gpu_found=False))} == {"noise", "mnist"}
    assert list(catalogue) == [*shipped_catalogue(), "noise"]


def test_one_key_of_an_entry_is_changed_and_no_other():
    """A mistake that a later file puts right is none."""
    wrong = "prepare: [imdb]\ndatasets: {imdb: {sequence_length: 0}}\n"
    _, catalogue = load(wrong, "datasets: {imdb: {sequence_length: 80}}\n")
    entry = shipped_catalogue()["imdb"]
    assert entry["sequence_length"] == 400
    assert catalogue == shipped_catalogue() | {"imdb": entry | {"sequence_length": 80}}


def test_a_changed_entry_is_changed_in_that_config_alone():
    changed = "prepare: [mnist]\ndatasets: {mnist: {title: Mine, samples: {train: 5}}}\n"
    assert load(changed)[1]["mnist"]["samples"] == {"train": 5, "test": 10000}
    assert load("prepare: [mnist]\n")[1] == shipped_catalogue()
    assert load(changed)[1]["mnist"]["title"] == "Mine"
    load("prepare: [mnist]\n")[1]["mnist"]["samples"]["train"] = 5
    assert load("prepare: [mnist]\n")[1] == shipped_catalogue(), "what a caller does to its copy"


IMAGE_FILES = ("image_lists", (3, 256, 256))


@pytest.mark.parametrize(
    ("keys", "kind_and_shape"),
    [
        ("format: image_list, folder: ~/f, root: a..b/c, lists: {train: t.txt, test: v/t.txt}", IMAGE_FILES),
        ("format: ilsvrc2012, folder: f, classes: 100", IMAGE_FILES),
        ("format: class_subset, of: imagenette, classes: 3, seed: 0, packed: true", IMAGE_FILES),
        ("format: class_subset, of: fashion-mnist, classes: 3, seed: 0, packed: false", ("images", (1, 28, 28))),
        ("format: class_subset, of: imdb, classes: 2, seed: 0", ("tokens", (400,))),
        (NOISE.replace("title: Noise, ", ""), ("images", (1, 28, 28))),
    ],
)
def test_kind_and_shape_of_an_own_dataset(keys, kind_and_shape):
    _, catalogue = load(f"prepare: [mine]\ndatasets: {{mine: {{title: T, {keys}}}}}\n")
    assert (kind_of("mine", catalogue), sample_shape("mine", catalogue)) == kind_and_shape
