"""Compares the update rules in numpy with first and second steps that were worked out by hand.

The constants are chosen so that the roots come out whole and epsilon is large: a rule with epsilon in another place,
or with another bias correction, gives other numbers.
"""

import inspect

import numpy as np
import pytest

from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.update_rules import UPDATE_RULES, adam, adam_algorithm_1, momentum_sgd, rmsprop, sgd


def steps_of(rule, gradients, **constants) -> list[float]:
    """The weight after each step; it is 1 before the first."""
    weight, state, weights = np.array(1.0), {}, []
    for step, gradient in enumerate(gradients, start=1):
        weight = rule(weight, np.array(gradient), state, step, **constants)
        weights.append(float(weight))
    return weights


ROOT = 0.661437827766147687  # of .4375 = 1 - .75 ** 2
BETAS = {"beta_1": 0.5, "beta_2": 0.75, "epsilon": 0.25}


@pytest.mark.parametrize(
    ("rule", "gradients", "constants", "weights"),
    [
        # 1 - .1 * 2 = .8; .8 - .1 * -3 = 1.1
        (sgd, [2.0, -3.0], {}, [0.8, 1.1]),
        # v = -.1 * 2 = -.2: .8; v = .5 * -.2 - .1 * -3 = .2: 1.; v = .1: 1.1
        (momentum_sgd, [2.0, -3.0, 0.0], {"momentum": 0.5}, [0.8, 1.0, 1.1]),
        # m = .5 * 2 = 1, v = .25 * 4 = 1, rate = .1 * sqrt(1 - .75) / (1 - .5) = .1; 1 - .1 * 1 / (1 + .25) = .92
        # m = .5 + .5 * 1 = 1, v = .75 + .25 = 1, rate = .1 * sqrt(.4375) / .75; .92 - rate / 1.25
        (adam, [2.0, 1.0], BETAS, [0.92, 0.92 - 0.1 * ROOT / 0.75 / 1.25]),
        # m / (1 - .5) = 2, sqrt(v / (1 - .75)) = 2; 1 - .1 * 2 / (2 + .25)
        # m / .75 = 4 / 3, sqrt(1 / .4375) beside .25
        (adam_algorithm_1, [2.0, 1.0], BETAS, [1 - 0.2 / 2.25, 1 - 0.2 / 2.25 - 0.1 * (4 / 3) / (1 / ROOT + 0.25)]),
        # s = .25 * 4 = 1; 1 - .1 * 2 / (1 + .25) = .84; s = .75 + .25 = 1; .84 - .1 * 1 / 1.25 = .76
        (rmsprop, [2.0, 1.0], {"rho": 0.75, "epsilon": 0.25}, [0.84, 0.76]),
    ],
)
def test_steps_worked_out_by_hand(rule, gradients, constants, weights):
    assert steps_of(rule, gradients, learning_rate=0.1, **constants) == pytest.approx(weights, rel=1e-14)


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.name)
def test_every_recipe_gives_its_rule_exactly_its_constants(recipe):
    settings = recipe.optimizer.as_dict()
    rule = UPDATE_RULES[settings.pop("rule")]
    wanted = set(inspect.signature(rule).parameters) - {"weight", "gradient", "state", "step"}
    assert set(settings) == wanted
