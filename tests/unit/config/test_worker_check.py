"""What a person reads whose workers can't train what an experiment names."""

from pathlib import Path

import pytest
from config_messages import assert_says, experiment, message_of, write

from trainmark.config.load import load_config

PICTURES = """
datasets:
  pictures:
    {title: P, format: synthetic, image_shape: [3, 224, 224], classes: 10, seed: 1, samples: {train: 64, test: 8}}
"""

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("workers: [0]", "workers[0]: found 0 …; allowed: a whole number, 1 to 4096"),
        ("workers: [2.5]", "workers[0]: found 2.5 …; allowed: a whole number, 1 to 4096"),
        ("workers: ['2']", "workers[0]: found '2' …; …1 to 4096; write it without quotes"),
        ("workers: 2", "workers: found 2 …; …; write [2]"),
        ("workers: []", "workers: found an empty list; …; or leave the key out"),
        ("workers: [2, 2]", "workers: found 2 …twice; …"),
        ("workers: [5000]", "workers[0]: found 5000 …; …1 to 4096"),
        ("worker: [2]", "worker: unknown key; …; did you mean workers?"),
        (
            "workers: [1, 2], frameworks: [keras-tensorflow]",
            "workers[1]: found 2, but keras-tensorflow has no engine for several workers; allowed: 1, or the "
            "frameworks chainer, flax, keras-jax, torch",
        ),
        (
            "workers: [2], frameworks: [chainer], loops: [stock, tuned]",
            "workers[0]: found 2, but several workers train only in the loop stock; allowed: 1, or loops: [stock]",
        ),
        (
            "workers: [8], frameworks: [flax], recipes: [imagenet-resnet50], datasets: [pictures]",
            "workers[0]: found 8, but JAX's distributed runtime, the engine of flax, computes BatchNorm of "
            "imagenet-resnet50 over the samples of all workers, and …; allowed: 1, another recipe, or the frameworks "
            "chainer, torch",
        ),
        (
            "workers: [8], frameworks: [torch], batch_size: 4",
            "workers[0]: found 8, but the last batch has 2 samples (mnist-mlp-flux on digits); allowed: at most 2, or "
            "another batch_size",
        ),
    ],
)
def test_a_mistake_is_one_sentence(keys, expected):
    base = "" if "recipes:" in keys else "recipes: [mnist-mlp-flux], "
    text = experiment(base + keys) + (PICTURES if "pictures" in keys else "")
    assert_says(message_of(write(text)), expected, "broken.yaml: experiments.e.")


@pytest.mark.parametrize(
    "keys",
    [
        "workers: [1], frameworks: [keras-jax], loops: [tuned]",
        "workers: [1, 2, 3, 16], frameworks: [chainer, torch, keras-jax, flax], batch_size: 64",
        "workers: [7], frameworks: [chainer], batch_size: full",
    ],
)
def test_what_is_right_is_kept(keys):
    config, _ = load_config([Path(write(experiment(f"recipes: [mnist-mlp-flux], {keys}")))])
    assert config["experiments"]["e"]["workers"]
