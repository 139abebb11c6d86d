"""Learning rates by epoch against values worked out by hand, and rmsprop_warmup over 100 epochs."""

import numpy as np
import pytest
from warm_up_by_hand import softmax_regression, trained_by_hand

from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import Optimizer, merged_optimizer
from trainmark.recipes.schedules import epoch_rates
from trainmark.recipes.update_rules import UPDATE_RULES

RESNET = RECIPES["imagenet-resnet50"]  # momentum_sgd, .01 and .9
MOMENTUM = RESNET.optimizer
SLOPES = {False: 1 / 5, True: 2 / 5}


def warm_up(**constants):
    """The optimizer of an experiment with rmsprop_warmup."""
    return merged_optimizer(RESNET, {"optimizer": {"rule": "rmsprop_warmup", **constants}})


def learning_rates(schedule, epochs, batch_size=32, **more):
    """The learning rate in each of these epochs."""
    return [dict(epoch_rates(MOMENTUM, schedule, batch_size, epoch, **more))["learning_rate"] for epoch in epochs]


# --- the optimizer of an experiment -------------------------------------------------------------------------------


def test_a_rule_brings_the_constants_of_its_original():
    """Also if it is the recipe's: RMSprop of mnist-mlp-keras has .001 and .9."""
    keras = RECIPES["mnist-mlp-keras"]
    assert keras.optimizer == Optimizer("rmsprop", 1e-3, (("rho", 0.9), ("epsilon", 1e-8)))
    expected = Optimizer("rmsprop", 0.01, (("rho", 0.99), ("epsilon", 1e-8)))
    assert merged_optimizer(keras, {"optimizer": {"rule": "rmsprop"}}) == expected
    changed = merged_optimizer(keras, {"optimizer": {"rule": "adam", "epsilon": 1e-7}})
    assert changed.as_dict() == {
        "rule": "adam", "learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-7,
    }  # fmt: skip


# --- schedules ----------------------------------------------------------------------------------------------------


SCALED = {"scale_with_batch": True}


@pytest.mark.parametrize(
    ("schedule", "samples", "rates"),
    [
        ({"milestones": [30, 60]}, {}, {1: 0.01, 30: 0.01, 31: 1e-3, 60: 1e-3, 61: 1e-4, 90: 1e-4}),
        ({"milestones": 1, "factor": 0.97}, {}, {1: 0.01, 2: 0.0097, 3: 0.009409}),  # a single one recurs
        ({"milestones": 30}, {}, {30: 0.01, 31: 1e-3, 61: 1e-4}),  # as in torchvision's reference training
        (SCALED, {"batch_size": 256}, {1: 0.01, 50: 0.01}),
        (SCALED, {"batch_size": 32 * 256}, {1: 0.32}),
        (SCALED, {"batch_size": 32}, {1: 0.00125}),
        (  # a warm-up to 32 times the rate in five equal parts (Goyal et al. 2017), then the milestones
            SCALED | {"warmup_epochs": 5, "milestones": [30, 60]},
            {"batch_size": 32 * 256},
            {1: 0.01, 2: 0.072, 3: 0.134, 4: 0.196, 5: 0.258, 6: 0.32, 30: 0.32, 31: 0.032, 61: 0.0032},
        ),
    ],
)
def test_rates_by_completed_epochs_and_samples_per_step(schedule, samples, rates):
    assert learning_rates(schedule, rates, **samples) == pytest.approx([*rates.values()], rel=1e-14)


# --- rmsprop_warmup -----------------------------------------------------------------------------------------------


def test_the_published_slope_overshoots_and_the_other_is_continuous():
    """e = 9 to 13 are epochs 10 to 14: exp(-2/5) / 2, then 1/2 + 2 (e - 10) / 5 or 1/2 + (e - 10) / 5, then 1."""
    for legacy, expected in {
        True: [0.33516002301781966, 0.5, 0.9, 1.3, 1.0],
        False: [0.33516002301781966, 0.5, 0.7, 0.9, 1.0],
    }.items():
        rates = [dict(epoch_rates(warm_up(legacy=legacy), {}, 256, e + 1)) for e in range(9, 14)]
        assert [one["sgd_share"] for one in rates] == pytest.approx(expected)
        assert rates[3]["rmsprop_share"] == pytest.approx((1 - expected[3]) * 0.0003 / 0.05)


def test_the_rate_starts_slowly_and_is_scaled_with_the_batch():
    """Base .1 x 8 workers x 64 / 256 = .2, times .5, .075, .01 and .001."""
    optimizer = warm_up()
    found = [dict(epoch_rates(optimizer, {}, 8 * 64, e))["learning_rate"] for e in (1, 40, 41, 70, 71, 85, 86)]
    assert found == pytest.approx([0.1, 0.1, 0.015, 0.015, 0.002, 0.002, 0.0002], rel=1e-14)


@pytest.mark.parametrize("legacy", SLOPES)
def test_100_epochs_in_numpy_equal_those_by_hand(legacy):
    generator = np.random.default_rng(0)
    inputs, labels, kernel = generator.normal(size=(10, 4)), np.arange(10) % 3, generator.normal(size=(4, 3))
    orders = [generator.permutation(10) for _ in range(100)]
    expected, trained = trained_by_hand(inputs, labels, kernel, orders, 4, 5.0, SLOPES[legacy])
    optimizer, state, losses = warm_up(legacy=legacy, learning_rate=5.0), {}, []
    for epoch, order in enumerate(orders, start=1):
        constants = optimizer.with_rates(epoch_rates(optimizer, {}, 4, epoch)).as_dict()
        rule = UPDATE_RULES[constants.pop("rule")]
        for batch in (order[:4], order[4:8], order[8:]):
            loss, gradient = softmax_regression(inputs[batch], labels[batch], kernel)
            losses.append(loss)
            kernel = rule(kernel, gradient, state, len(losses), **constants)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    np.testing.assert_allclose(kernel, trained, rtol=1e-12)
    assert losses[-1] < losses[0] / 2
