"""What a config means once it is loaded: defaults, precedence, the command line, datasets, variants and commands."""

import json
from pathlib import Path

import pytest

from trainmark.config.load import REPOSITORY, default_config, load_config, read_yaml, shipped_files
from trainmark.config.schema_check import settings_of_variants
from trainmark.config.strict_yaml import line_of
from trainmark.plan.matrix import expand_runs, with_devices
from trainmark.recipes.recipe import DEFAULT_CONSTANTS
from trainmark.report.page import config_to_reproduce
from trainmark.variant import factors, levels_of, split_name

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def load(*texts, overrides=None):
    files = [Path(f"{number}.yaml") for number, _ in enumerate(texts)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return load_config(files, overrides)


def experiments_of(*texts, overrides=None):
    return load(*texts, overrides=overrides)[0]["experiments"]


def test_a_later_file_and_the_command_line_take_precedence():
    """A mistake that a later file puts right is none."""
    Path("m").mkdir()
    config, _ = load(
        "mirror: m\nexperiments: {e: {epochs: [1, 0], repeats: 2, input: {scale: 1, crop: [28, 28]}}}\n",
        "experiments: {e: {epochs: [3], input: {scale: 2}}, f: {seed: 4}}\n",
        overrides={"experiments": {"e": {"input": {"crop": None}, "seed": 9}}},
    )
    assert config["mirror"] == "m"
    e, f = config["experiments"]["e"], config["experiments"]["f"]
    assert (e["epochs"], e["repeats"], e["seed"]) == ([3], 2, 9), "a list takes the place of a list, whole"
    assert e["input"] == {"scale": 2, "crop": None}, "mappings are merged key by key"
    assert (f["seed"], f["epochs"]) == (4, [10])


def test_a_value_of_the_command_line_is_read_as_yaml():
    """Snakemake leaves all within a list or a mapping as text."""
    for value, read in {"TRUE": True, "off": False, True: True}.items():
        assert load(overrides={"prepare": ["digits"], "offline": value})[0]["offline"] is read
    found = experiments_of(overrides={"experiments": {"e": {"epochs": ["1", "2"], "description": ""}}})
    assert found["e"]["epochs"] == [1, 2]


def test_aliases_and_merges_of_yaml():
    found = experiments_of("experiments:\n  e: &e {epochs: [1], repeats: 2}\n  f: {<<: *e, repeats: 3}\n")
    assert [(one["epochs"], one["repeats"]) for one in found.values()] == [([1], 2), ([1], 3)]


def test_the_line_of_a_key():
    text = "# what we compare\nexperiments:\n  first:\n    frameworks: [chainer,\n      torch]\n    <<: {seed: 3}\n"
    Path("a.yaml").write_text(text)
    lines = {
        ("experiments", "first", "epochs"): 3,  # a key that is missing: where its mapping begins
        ("experiments", "first", "frameworks", 1): 5,
        ("experiments", "first", "frameworks", 9): 4,
        ("prepare",): None,
    }
    assert {path: line_of(Path("a.yaml"), path) for path in lines} == lines


def test_the_default_config_is_the_folders_or_else_the_clones():
    assert default_config() == REPOSITORY / "config" / "config.yaml"
    Path("config").mkdir()
    Path("config/config.yaml").touch()
    assert default_config() == Path("config", "config.yaml")


@pytest.mark.parametrize("mirror", ["./m", "~/m", "https://user:pw@mirror.invalid/data?sig=key"])
def test_a_mirror_that_files_may_be_fetched_from(monkeypatch, tmp_path, mirror):
    monkeypatch.setenv("HOME", str(tmp_path))
    Path("m").mkdir()
    monkeypatch.setenv("TRAINMARK_MIRROR", "nowhere")
    assert load(f"mirror: {mirror}\nprepare: [mnist]")[0]["mirror"] == mirror
    monkeypatch.setenv("TRAINMARK_MIRROR", mirror)
    assert load("prepare: [mnist]")[0]["mirror"] is None


@pytest.mark.parametrize(
    "keys",
    [
        *(f"optimizer: {{rule: {rule}}}" for rule in DEFAULT_CONSTANTS),
        "recipes: [mnist-mlp-flux], optimizer: {epsilon: 1.0e-7}",  # its own form of Adam has the constants of adam
        "learning_rate_schedule: {milestones: 30}",
        "epochs: [10, 20], optimizer_restarts: 9",
        "batch_size: full, learning_rate_schedule: {scale_with_batch: true, warmup_epochs: 5}",
        "workers: [1, 2, 3, 16], frameworks: [chainer, torch, keras-jax, flax], batch_size: 64",
        "workers: [7], frameworks: [chainer], batch_size: full",
    ],
)
def test_settings_that_are_right(keys):
    assert experiments_of(f"experiments: {{e: {{{keys}}}}}")


def test_initial_weights_where_classes_are_counted_later():
    with open("weights.npz", "wb") as file:
        file.write(b"PK\x05\x06" + bytes(18))  # an empty archive
    mine = "datasets: {mine: {title: Mine, format: image_folder, folder: photographs}}\n"
    keys = "recipes: [imagenet-nin], datasets: [mine], initial_weights: weights.npz"
    assert experiments_of(f"{mine}experiments: {{e: {{{keys}}}}}")


# --- datasets -----------------------------------------------------------------------------------------------------

NOISE = "title: Noise, format: synthetic, image_shape: [1, 28, 28], classes: 4, samples: {train: 8, test: 4}, seed: 7"
SHIPPED = read_yaml(REPOSITORY / "config" / "datasets.yaml")


def test_an_own_dataset_is_trained_on_like_any_other():
    config, catalogue = load(
        f"datasets: {{noise: {{{NOISE}}}}}\nexperiments: {{e: {{batch_size: 8, datasets: [noise, mnist]}}}}\n"
    )
    assert catalogue["noise"] == config["datasets"]["noise"]
    assert {run.dataset for run in expand_runs(with_devices(config, gpu_found=False))} == {"noise", "mnist"}
    assert list(catalogue) == [*SHIPPED, "noise"]


def test_a_changed_entry_is_changed_in_that_key_and_in_that_config_alone():
    changed = "prepare: [mnist]\ndatasets: {mnist: {samples: {train: 5}}}\n"
    entry = SHIPPED["mnist"] | {"samples": {"train": 5, "test": 10000}}
    assert load(changed)[1] == SHIPPED | {"mnist": entry}
    load("prepare: [mnist]\n")[1]["mnist"]["samples"]["train"] = 5
    assert load("prepare: [mnist]\n")[1] == SHIPPED, "what a caller does to its copy"


# --- variants -----------------------------------------------------------------------------------------------------


def test_each_variant_is_an_experiment_whose_keys_replace_those_of_its_experiment():
    optimizer = "{rule: adam, beta_1: 0.8}"
    keys = f"optimizer: {optimizer}, batch_size: 16, variants: {{a: {{optimizer: {{rule: sgd}}}}, b: {{}}}}"
    found = experiments_of(f"experiments: {{e: {{{keys}}}}}")
    assert {name: one["optimizer"] for name, one in found.items()} == {
        "e.a": {"rule": "sgd"},
        "e.b": {"rule": "adam", "beta_1": 0.8},
    }
    assert all(one["batch_size"] == 16 and "variants" not in one for one in found.values())


def test_each_cell_of_a_grid_is_an_experiment_with_one_value_of_each_list():
    grid = "{learning_rate: [1.0e-05, 0.3], batch_size: [32, full]}"
    found = experiments_of(f"experiments: {{e: {{optimizer: {{rule: adam}}, batch_size: 16, grid: {grid}}}}}")
    assert {name: (one["optimizer"], one["batch_size"]) for name, one in found.items()} == {
        f"e.learning_rate-{rate}.batch_size-{size}": ({"rule": "adam", "learning_rate": float(rate)}, size)
        for rate in ("1.0e-05", "0.3")
        for size in (32, "full")
    }
    for name in found:
        assert list(levels_of(split_name(name)[1])) == ["learning_rate", "batch_size"]


def test_the_settings_that_a_grid_can_vary_have_names_of_their_own():
    settings = settings_of_variants(shipped_files()[0])
    names = [*settings, *(name for part in settings.values() for name in part.get("properties", ()))]
    assert len(set(names)) == len(names)
    assert {"batch_size", "learning_rate", "rule"} <= set(factors(settings)) < set(names)


def test_the_config_that_the_report_prints_gives_the_same_runs_with_the_same_settings():
    """Also of an experiment without variants, which stays as it is, and of one with a grid."""
    text = "experiments:\n  e: {variants: {a: {optimizer: {rule: sgd}}, b: {}, c: {batch_size: 8}}}\n  f: {epochs: [1]}"
    text += "\n  g: {optimizer: {rule: adam}, grid: {learning_rate: [.1, .2], batch_size: [8, 16]}}"
    config, _ = load(text)
    written = config_to_reproduce({"config": config}, "plan.json")
    assert json.loads(written)["experiments"]["e"]["variants"]["c"] == {"batch_size": 8, "optimizer": {}}
    assert experiments_of(written) == config["experiments"]


# --- commands -----------------------------------------------------------------------------------------------------


def experiment_of_command(command, **keys):
    metrics = {"format": "regex", "pattern": r"loss (?P<loss>\S+)"}
    commands = {"commands": {"c": {"command": "python train.py", "metrics": metrics} | command}}
    return experiments_of(overrides={"experiments": {"e": commands | keys}})["e"]


def test_an_experiment_of_commands_alone_has_no_recipe():
    experiment = experiment_of_command({})
    assert [experiment[key] for key in ("recipes", "datasets", "frameworks")] == [[], [], []]
    assert experiment["commands"]["c"]["device_flag"] == {"cpu": "", "gpu": ""}
    assert experiment_of_command({}, frameworks=["chainer"])["recipes"] == ["mnist-mlp-keras"]


@pytest.mark.parametrize(
    "line",
    [
        "sh -c 'cd x && exec python t.py {epochs} > ${HOME}/log; `a` | $(b)'",
        'sh -c "cd $x && exec python t.py"',
        r"python t.py a\;b \$HOME 'it'\''s;'",
        "python t.py --lr=1e-3 x=1 a~b#c foo$ 50% @x ! ? [1,2]",
        "python t.py\n  --epochs {epochs}\n--x\n",
    ],
)
def test_a_line_that_needs_no_shell_is_allowed(line):
    found = experiment_of_command({"command": line, "variables": {"A": "a$; b | c"}})
    assert found["commands"]["c"]["command"] == line


def test_the_folder_of_an_environment_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").mkdir()
    assert experiment_of_command({"environment": "~/x"})["commands"]["c"]["environment"] == str(tmp_path / "x")
