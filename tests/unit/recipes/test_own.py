"""The user's own recipes: read from files, kept in the plan as data."""

import json
from pathlib import Path

import pytest
from harness import OWN_RECIPE as FILE

from trainmark.config.load import load_config
from trainmark.errors import ConfigError, DataError
from trainmark.plan.jobs import make_plan
from trainmark.plan.plan_file import read_plan
from trainmark.recipes import own
from trainmark.recipes.catalogue import RECIPES

EXPERIMENT = {"recipes": ["linear"], "datasets": ["digits"], "frameworks": ["chainer", "flax"], "devices": ["cpu"]}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, in which own.py has a recipe."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(FILE)
    yield tmp_path
    own.register(())


def planned():
    return make_plan(*load_config([], {"networks": ["own.py"], "experiments": {"e": EXPERIMENT}}))


def test_a_plan_holds_a_recipe_as_data_and_needs_no_file(folder):
    plan = planned()
    written = RECIPES["linear"]
    (folder / "own.py").unlink()
    (folder / "plan.json").write_text(json.dumps(plan))
    own.register(())
    assert "linear" not in RECIPES
    read_plan(folder / "plan.json")
    recipe = RECIPES["linear"]
    assert recipe.architecture((1, 28, 28), 10) == written.architecture((1, 28, 28), 10)
    values = [{**vars(one), "architecture": None} for one in (recipe, written)]
    assert values[0] == values[1]
    assert own.deciding_values(recipe, [((1, 28, 28), 10)]) == own.deciding_values(written, [((1, 28, 28), 10)])
    own.register(())
    again = load_config([], {"networks": ["plan.json"], "experiments": {"e": EXPERIMENT}})
    assert make_plan(*again)["records"] == plan["records"], "the plan of a results folder trains the same runs"
    with pytest.raises(DataError, match=r"no network linear for inputs of the shape \(1, 8, 8\) and 10 classes"):
        recipe.architecture((1, 8, 8), 10)


def test_an_edit_trains_again_if_it_changes_the_network_or_the_recipe(folder):
    def records(text):
        (folder / "own.py").write_text(text)
        return set(planned()["records"].values())

    assert records(FILE + "# a comment") == records(FILE)
    published = FILE.replace("published_classes=10", "published_classes=5").replace("7_850", "3_925")
    as_trained = published.replace('"fc", "Dense"', '"fc" if classes == 5 else "last", "Dense"')
    edits = [FILE.replace('"flatten", "Flatten"', '"flat", "Flatten"'), FILE.replace("batch_size=50", "batch_size=25")]
    texts = [FILE, *edits, published, as_trained]
    assert len(set.union(*map(records, texts))) == len(texts) * len(records(FILE))


def on_photographs(dataset):
    photographs = FILE.replace("(1, 28, 28)", "(3, 32, 32)").replace("7_850", "30_730").replace(
        "InputTransform()", "InputTransform(crop=(32, 32))"
    )  # fmt: skip
    Path("own.py").write_text(photographs)
    experiment = EXPERIMENT | {"datasets": [dataset], "batch_size": 8}
    return make_plan(*load_config([], {"networks": ["own.py"], "experiments": {"e": experiment}}))


def test_a_plan_has_the_network_for_the_classes_of_a_subset():
    assert "3x32x32/8" in on_photographs("mini-imagenet-8")["recipes"][0]["graphs"]


def test_classes_that_are_not_known_yet_are_refused():
    with pytest.raises(ConfigError, match="needs the number of classes of image-folder before it is prepared"):
        on_photographs("image-folder")


@pytest.mark.parametrize("text", ["", "[]", '{"records": {}}', '{"recipes": [1]}'])
def test_a_file_that_is_no_plan_with_recipes_is_named(folder, text):
    (folder / "plan.json").write_text(text)
    with pytest.raises(ConfigError, match=r"networks: plan\.json is no plan\.json of a results folder with recipes"):
        own.read_networks(["plan.json"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "networks: own.py does not exist in"),
        ("import nothing_of_this_name", "networks: own.py, line 1: "),
        ("def f(:", "networks: own.py, line 1: "),
        ("x = 1", "has no recipe; assign one to a name"),
        (FILE.replace('name="linear"', 'name="imdb-cnn"'), "a recipe imdb-cnn, a name that is taken"),
        (FILE.replace('name="linear"', 'name="My_Net"'), "a recipe 'My_Net'; allowed: lower-case letters"),
        (FILE.replace("7_850", "7_851"), "its network has 7,850 parameters, and its published_parameters are 7,851"),
        (FILE.replace("1, 28, 28", "1, 8, 8").replace("7_850", "650"), "takes inputs of 1 x 8 x 8"),
    ],
)
def test_a_file_that_is_wrong_is_named(folder, text, words):
    (folder / "own.py").unlink()
    if text:
        (folder / "own.py").write_text(text)
    with pytest.raises(ConfigError) as error:
        planned()
    assert words in str(error.value)
