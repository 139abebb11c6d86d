"""What a person reads whose optimizer or learning-rate schedule is wrong. None is replaced by another one."""

from pathlib import Path

import pytest
from config_messages import assert_says, experiment, message_of, write

from trainmark.config.load import load_config
from trainmark.recipes.recipe import DEFAULT_CONSTANTS

pytestmark = pytest.mark.usefixtures("in_tmp_path")


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # --- rules and constants that are unknown
        ("optimizer: {rule: momentum-sgd}", "optimizer.rule: found 'momentum-sgd' …; …; did you mean momentum_sgd?"),
        ("optimizer: {beta1: 0.9}", "optimizer.beta1: unknown key; …; did you mean beta_1?"),
        # --- values
        ("optimizer: {learning_rate: 0}", "optimizer.learning_rate: found 0 (a whole number); …a number above 0"),
        ("optimizer: {rule: momentum_sgd, momentum: 1}", "optimizer.momentum: found 1 …; …above 0 and below 1"),
        ("optimizer: {rule: momentum_sgd, momentum: 0}", "optimizer.momentum: found 0 …; …above 0 and below 1"),
        ("optimizer: {rule: adam, epsilon: 0.0}", "optimizer.epsilon: found 0.0 (a number); allowed: …1.0e-30 or more"),
        # --- constants that the rule does not have
        (
            "optimizer: {rule: adam, momentum: 0.9}",
            "optimizer.momentum: found 0.9 (a number), but the rule adam has no momentum; allowed: learning_rate, "
            "beta_1, beta_2, epsilon, or another rule",
        ),
        (
            "recipes: [mnist-mlp-flux, mnist-mlp-keras], optimizer: {beta_1: 0.5}",  # the second has RMSprop
            "optimizer.beta_1: …rmsprop of the recipe mnist-mlp-keras has no beta_1; …learning_rate, rho, epsilon, …",
        ),
        # --- schedules
        ("learning_rate_schedule: {factors: 1}", "learning_rate_schedule.factors: unknown key; …; …mean factor?"),
        ("learning_rate_schedule: {milestones: [0, 9]}", "learning_rate_schedule.milestones[0]: found 0 …; …1 or more"),
        ("learning_rate_schedule: {milestones: [9, 9]}", "learning_rate_schedule.milestones: found 9 …twice; …"),
        (
            "learning_rate_schedule: {milestones: 2.5}",
            "learning_rate_schedule.milestones: found 2.5 …; …a list of them",
        ),
        ("learning_rate_schedule: {factor: 0.5}", "learning_rate_schedule.factor: found 0.5 …no milestones; …"),
        (
            "learning_rate_schedule: {warmup_epochs: 5}",
            "learning_rate_schedule.warmup_epochs: found 5 …, but the rate is not scaled; …scale_with_batch: true",
        ),
        (
            "batch_size: 256, learning_rate_schedule: {scale_with_batch: true, warmup_epochs: 5}",
            "learning_rate_schedule.warmup_epochs: found 5 …, but batches of 256 samples …of 256; …above 256",
        ),
        (
            "optimizer: {rule: rmsprop_warmup}, learning_rate_schedule: {milestones: [30]}",
            "learning_rate_schedule: found {milestones: [30]} (a mapping), but the rule …; …",
        ),
        # --- restarts
        (
            "epochs: [20, 25], optimizer_restarts: 9",
            "optimizer_restarts: found 9, but 25 epochs have no 10 equal parts; …epochs divisible by 10",
        ),
        (
            "optimizer: {rule: sgd}, optimizer_restarts: 1",
            "optimizer_restarts: found 1, but the rule sgd has no state to restart; …",
        ),
    ],
)
def test_a_mistake_is_one_sentence(keys, expected):
    assert_says(message_of(write(experiment(keys))), expected, "broken.yaml: experiments.e.")


@pytest.mark.parametrize(
    "keys",
    [
        *(f"optimizer: {{rule: {rule}}}" for rule in DEFAULT_CONSTANTS),
        "recipes: [mnist-mlp-flux], optimizer: {epsilon: 1.0e-7}",  # its own form of Adam has the constants of adam
        "optimizer: {rule: rmsprop_warmup, learning_rate: 1, legacy: true}",
        "learning_rate_schedule: {milestones: 30}",
        "epochs: [10, 20], optimizer_restarts: 9",
        "batch_size: 257, learning_rate_schedule: {milestones: [30, 60, 80], scale_with_batch: true, warmup_epochs: 5}",
        "batch_size: full, learning_rate_schedule: {scale_with_batch: true, warmup_epochs: 5}",
        "learning_rate_schedule: {warmup_epochs: 0, scale_with_batch: true}",
    ],
)
def test_what_is_right_is_kept_as_it_was_given(keys):
    config, _ = load_config([Path(write(experiment(keys)))])
    given = config["experiments"]["e"]
    assert given["optimizer"] or given["learning_rate_schedule"] or given["optimizer_restarts"]
