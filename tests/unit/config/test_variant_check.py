"""Variants: what a config may say of them, and what a person reads if it is wrong."""

import json
from pathlib import Path

import pytest
from config_messages import assert_says, experiment, message_of, write

from trainmark.config.load import REPOSITORY, load_config
from trainmark.plan.matrix import expand_runs, with_devices
from trainmark.report.page import config_to_reproduce

pytestmark = pytest.mark.usefixtures("in_tmp_path")

BELONGS = "belongs to the experiment, to all its variants; allowed in a variant: …"
EQUAL = "is the same training as a with the recipe mnist-mlp-keras; allowed: other settings. …"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # --- names, and how many
        ("variants: [a, b]", "variants: found ['a', 'b'] (a list); …"),
        ("variants: {A: {}, b: {}}", "variants.A: found the name 'A' (text); …"),
        ("variants: {a.b: {}, c: {}}", "variants.'a.b': found the name 'a.b' (text); …"),
        ("variants: {1: {}, b: {}}", "variants.1: found the name 1 (a whole number); …; write it in quotes"),
        ("variants: {a: {dropout: 0}}", "variants: found one variant; allowed: two or more, or its settings in …"),
        ("variants: {a: null, b: {}}", "variants.a: found nothing (null); allowed: a mapping of settings, or {} …"),
        # --- keys
        ("variants: {a: {batchsize: 3}, b: {}}", "variants.a.batchsize: unknown key; …; did you mean batch_size?"),
        ("variants: {a: {epochs: [3]}, b: {}}", f"variants.a.epochs: {BELONGS}"),
        ("variants: {a: {seed: 3}, b: {}}", f"variants.a.seed: {BELONGS}"),
        ("variants: {a: {target_accuracy: .5}, b: {}}", f"variants.a.target_accuracy: {BELONGS}"),
        ("variants: {a: {keep_weights: true}, b: {}}", "variants.a.keep_weights: decides nothing of a training; …"),
        ("variants: {a: {description: x}, b: {}}", "variants.a.description: decides nothing of a training; …"),
        # --- values: found in the variant that has them
        ("variants: {a: {batch_size: 0}, b: {}}", "variants.a.batch_size: found 0 …; …"),
        ("variants: {a: {workers: [0]}, b: {}}", "variants.a.workers[0]: found 0 …; …"),
        ("variants: {a: {batch_size: 9000}, b: {}}", "variants.a.batch_size: found 9000, but …; …"),
        (
            "variants: {a: {optimizer: {rule: adam, momentum: .3}}, b: {}}",
            "variants.a.optimizer.momentum: found 0.3 (a number), but the rule adam has no momentum; …",
        ),
        (
            "variants: {a: {loader: {jobs: 2}}, b: {}}",
            "variants.a.loader: found {jobs: 2} …, which has no effect, …; …",
        ),
        ("variants: {a: {batch_size: 8}, b: {}}, dropout: 2", "dropout: found 2 (a whole number); …"),
        (
            "variants: {a: {dropout: .5}, b: {}}, recipes: [mnist-mlp-flux]",
            "variants.a.dropout: found 0.5 (a number), and the recipe mnist-mlp-flux has no dropout layers; …",
        ),
        # --- variants that are no comparison
        ("variants: {a: {batch_size: 8}, b: {batch_size: 8}}", f"variants.b: {EQUAL}"),
        ("variants: {a: {dropout: .2}, b: {}}", f"variants.b: {EQUAL}"),
        ("variants: {a: {workers: [1]}, b: {}}", f"variants.b: {EQUAL}"),
        (
            "variants: {a: {optimizer: {rule: rmsprop, learning_rate: 1.0e-2}}, b: {optimizer: {rule: rmsprop}}}",
            f"variants.b: {EQUAL}",
        ),
        (
            "variants: {a: {}, b: {}}, commands: {c: {command: x, metrics: {format: chainer-log-report}}}",
            "variants: has no effect on the commands of the experiment; …",
        ),
        # --- a list in place of a variant
        (
            "optimizer: {learning_rate: [.1, .2]}",
            "optimizer.learning_rate: found [0.1, 0.2] (a list); …; to compare several, make each a variant "
            "(docs/variants.md)",
        ),
    ],
)
def test_a_wrong_variant_is_one_sentence(keys, expected):
    assert_says(message_of(write(experiment(keys))), expected, "broken.yaml: experiments.e.")


def test_the_same_name_twice_is_found_by_the_yaml_loader():
    assert "found the key 'a' twice" in message_of(write(experiment("variants: {a: {}, a: {}}")))


def loaded(keys):
    return load_config([Path(write(experiment(keys)))])[0]


def test_each_variant_is_an_experiment_whose_keys_replace_those_of_its_experiment():
    optimizer = "{rule: adam, beta_1: 0.8}"
    keys = f"optimizer: {optimizer}, batch_size: 16, variants: {{a: {{optimizer: {{rule: sgd}}}}, b: {{}}}}"
    experiments = loaded(keys)["experiments"]
    assert list(experiments) == ["e.a", "e.b"]
    assert experiments["e.a"]["optimizer"] == {"rule": "sgd"}
    assert experiments["e.b"]["optimizer"] == {"rule": "adam", "beta_1": 0.8}
    assert all(one["batch_size"] == 16 and "variants" not in one for one in experiments.values())


def test_the_config_that_the_report_prints_gives_the_same_runs_with_the_same_settings():
    """Also of an experiment without variants, which stays as it is."""
    text = "experiments:\n  e: {variants: {a: {optimizer: {rule: sgd}}, b: {}, c: {batch_size: 8}}}\n  f: {epochs: [1]}"
    config = load_config([Path(write(text))])[0]
    written = config_to_reproduce(config)
    assert json.loads(written)["experiments"]["e"]["variants"]["c"] == {"batch_size": 8, "optimizer": {}}
    assert load_config([Path(write(written))])[0]["experiments"] == config["experiments"]


def test_a_variant_can_be_given_on_the_command_line():
    file = Path(write(experiment("variants: {a: {}, b: {batch_size: 8}}")))
    config = load_config([file], {"experiments": {"e": {"variants": {"c": {"batch_size": "16"}}}}})[0]
    assert {name: one["batch_size"] for name, one in config["experiments"].items()} == {
        "e.a": "recipe", "e.b": 8, "e.c": 16,
    }  # fmt: skip


@pytest.mark.parametrize("example", sorted((REPOSITORY / "config" / "variants").iterdir()), ids=lambda file: file.stem)
def test_the_examples_compare_two_frameworks(example):
    config = with_devices(load_config([example])[0], gpu_found=False)
    runs = expand_runs(config)
    assert {run.trainer.framework for run in runs} == {"chainer", "flax"}
    assert {run.experiment.split(".")[0] for run in runs} == {example.stem}
