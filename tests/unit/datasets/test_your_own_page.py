"""docs/your_own.md: its data, configs, network and adapter work as they stand there.

The page is followed in a copy of the repository, but for the trainings: validate.py checks each config instead.
"""

import re
import subprocess
import sys

import numpy as np
import pytest
import yaml
from harness import REPOSITORY, copy_of_repository, edit, environment, files_of
from reference import Reference

from trainmark.networks.zoo.mlp import mlp_32
from trainmark.recipes.batch_order import epoch_feed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

PAGE = (REPOSITORY / "docs" / "your_own.md").read_text(encoding="utf-8")
FILES = files_of("your_own.md")
COMMANDS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
CONFIGS = [command for block in COMMANDS for command in re.findall(r"--configfile (.+)", block)]
ADAPTER = "workflow/scripts/trainmark/frameworks/numpy_adapter.py"


def python(folder, *arguments):
    done = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the repository with the files of the page, and its recipe."""
    folder = copy_of_repository(tmp_path_factory.mktemp("your-own"))
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    (recipe,) = re.findall(r"^```\n( +Recipe\(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    catalogue = folder / "workflow" / "scripts" / "trainmark" / "recipes" / "catalogue.py"
    edit(catalogue, "nin, resnet50\n", "nin, resnet50, small_cnn\n")
    edit(catalogue, "    for recipe in (\n", f"    for recipe in (\n{recipe}")
    return folder


def test_every_config_of_the_page_is_used_by_a_command():
    used = {name for command in CONFIGS for name in command.split()}
    assert used == {name for name in FILES if name.endswith(".yaml") and "/" not in name}


@pytest.mark.parametrize("files", CONFIGS)
def test_a_config_of_the_page_is_right(copy, files):
    assert "runs in all" in python(copy, "workflow/scripts/validate.py", *files.split())


@pytest.mark.parametrize(("data", "config"), [("photographs", "photographs.yaml"), ("arrays", "arrays.yaml")])
def test_the_data_are_made_and_described_as_the_page_shows(copy, data, config):
    (block,) = [block for block in COMMANDS if re.search(rf"describe_dataset\.py \S+ {data}$", block.strip())]
    printed = subprocess.run(
        ["bash", "-ec", block], cwd=copy, capture_output=True, text=True, check=True, env=environment()
    ).stdout
    shown = printed.replace(str(copy), "/home/me/trainmark")
    assert f"```\n{shown}```\n" in PAGE
    (name,) = yaml.safe_load(FILES[config])["datasets"]
    described = yaml.safe_load(printed)["datasets"][name]
    assert yaml.safe_load(FILES[config])["datasets"][name] | {"folder": described["folder"]} in (
        described, described | {"packed": True},
    )  # fmt: skip


def test_the_network_has_the_parameters_that_its_recipe_says(copy):
    code = (
        "from trainmark.recipes.catalogue import RECIPES; recipe = RECIPES['small-cnn']; "
        "network = recipe.architecture(recipe.input_shape, recipe.published_classes); "
        "print(network.parameter_count() == recipe.published_parameters)"
    )
    assert python(copy / "workflow" / "scripts", "-c", code) == "True\n"


@pytest.fixture
def numpy_adapter():
    """The page's adapter, and what numpy of the tests makes of the same training, in float64."""
    namespace: dict = {}
    exec(compile(FILES[ADAPTER], ADAPTER, "exec"), namespace)
    network = mlp_32((1, 4, 4), 3)
    weights = draw_initial_weights(network, "glorot_uniform", (1, 1))
    optimizer = Optimizer("adam", 1e-2, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8)))

    def build():
        adapter = namespace["create"]("numpy", 1)
        adapter.build(architecture=network, weights=weights, optimizer=optimizer, device="cpu", dtype="float64")
        adapter.load(split="train", inputs=images, labels=labels)
        return adapter

    generator = np.random.default_rng(0)
    images, labels = generator.random((10, 1, 4, 4)), generator.integers(0, 3, 10)
    return build, Reference(network, weights, optimizer), images, labels


def test_the_adapter_trains_as_the_reference_does(numpy_adapter):
    build, reference, images, labels = numpy_adapter
    adapter = build()
    for epoch in (1, 2):
        feed = epoch_feed(10, 4, (1, 1), epoch)
        losses = adapter.train_epoch(feed)
        batches = [feed.order[start : start + 4] for start in (0, 4, 8)]
        assert losses == pytest.approx([reference.train_step(images[batch], labels[batch]) for batch in batches])
    for name, array in adapter.weights().items():
        assert array == pytest.approx(reference.weights[name], rel=1e-9)
    assert adapter.counted() == {"samples": 10, "batches": 3, "updates": 6}
    assert adapter.predict("train") == pytest.approx(reference.logits(images))


def test_the_adapter_goes_on_from_its_state(numpy_adapter):
    build, *_ = numpy_adapter
    first, second = build(), build()
    first.train_epoch(epoch_feed(10, 4, (1, 1), 1))
    second.set_state(first.state())
    for adapter in (first, second):
        adapter.train_epoch(epoch_feed(10, 4, (1, 1), 2))
    for name, array in first.weights().items():
        assert np.array_equal(array, second.weights()[name])
