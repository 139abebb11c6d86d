"""Which differences between the step losses of two trainers show another training, and which are honest."""

import numpy as np
import pytest

from trainmark.checks.epochs import LASTING, first_difference, ordered_epochs

EPOCHS, PLANTED = 8, 5
NO_DROPOUT, DROPOUT = 1e-5, 0.25
"""Relative differences of the losses of two correct trainings."""


def simulated(noise, runs=8, steps=15, seed=1, fault=None):
    """Step losses of two trainers that fall over the epochs; `fault` takes those of the second one from PLANTED on."""
    rng = np.random.default_rng(seed)
    epochs = []
    for epoch in range(1, EPOCHS + 1):
        fall = np.exp(-np.linspace(epoch - 1, epoch, steps))
        first = fall * np.exp(rng.normal(0, 0.4, (runs, steps)))
        second = first * np.exp(rng.normal(0, noise, (runs, steps)) + rng.normal(0, noise / 2, (runs, 1)))
        if fault and epoch >= PLANTED:
            second = fault(first, second, fall, rng)
        epochs.append(np.array([first, second]))
    return epochs


def other_batches(first, second, fall, rng):
    return fall * np.exp(rng.normal(0, 0.4, first.shape))


def other_rate(first, second, fall, rng):
    return second * np.linspace(1, 2, first.shape[1])


def less_precise(first, second, fall, rng):
    return second * (1 + rng.normal(0, 4e-3, first.shape))


def from_step_8(fault):
    """A fault that begins in the middle of an epoch of 15 steps."""

    def late(first, second, fall, rng):
        return np.concatenate([second[:, :8], fault(first, second, fall, rng)[:, 8:]], axis=1)

    return late


def larger(by):
    return lambda first, second, fall, rng: second * (1 + by)


@pytest.mark.parametrize("noise", [0.0, NO_DROPOUT, DROPOUT])
@pytest.mark.parametrize("runs", [1, 2, 3, 8])
@pytest.mark.parametrize("steps", [1, 7, 12, 300])
def test_honest_runs_show_no_difference(noise, runs, steps):
    for seed in range(20):
        honest = simulated(noise, runs, steps, seed)
        assert first_difference(honest) is None
        assert first_difference(honest[:1], [(steps, honest[0][..., -1])]) is None


def test_losses_that_have_become_zero_show_no_difference():
    epochs = simulated(NO_DROPOUT)
    assert first_difference([*epochs, *[np.zeros_like(epochs[0])] * 2]) is None


@pytest.mark.parametrize(
    ("fault", "noise", "runs", "shown"),
    [
        (other_batches, NO_DROPOUT, 1, "jump"),
        (other_batches, DROPOUT, 8, "order"),
        (less_precise, NO_DROPOUT, 8, "jump"),
        (from_step_8(less_precise), NO_DROPOUT, 4, "jump"),
        (from_step_8(other_batches), NO_DROPOUT, 1, "jump"),
        (larger(0.69), DROPOUT, 6, "level"),
        (larger(2.0), DROPOUT, 2, "level"),
        (larger(2.0), DROPOUT, 1, "level"),
        (other_rate, DROPOUT, 8, "level"),
    ],
)
def test_another_training_is_found_in_its_first_epoch(fault, noise, runs, shown):
    for seed in range(10):
        found = first_difference(simulated(noise, runs, seed=seed, fault=fault))
        assert (found.check, found.epoch) == (shown, PLANTED)


def test_a_jump_is_found_at_its_step():
    found = first_difference(simulated(NO_DROPOUT, fault=from_step_8(other_batches)))
    assert found.words.startswith(f"the loss of step {(PLANTED - 1) * 15 + 9} differs by ")


def test_a_small_difference_shows_in_many_epochs_together():
    found = first_difference(simulated(DROPOUT, 8, seed=1, fault=larger(0.15)))
    assert found.check == LASTING and abs(found.epoch - PLANTED) <= 1 and "from it on differ by -" in found.words


def evaluated(noise, runs, fault=None, seed=1):
    """(step losses, test losses after each epoch); `fault` takes those of the second trainer, (epochs, runs)."""
    epochs = simulated(noise, runs, seed=seed)
    losses = np.array([epoch.mean(axis=-1) for epoch in epochs])
    if fault:
        losses[:, 1] = fault(losses[:, 1])
    return epochs, [(15 * number, of_epoch) for number, of_epoch in enumerate(losses, start=1)]


def helped(losses):
    return np.concatenate([losses[:4], 0.8 * losses[4:6], losses[6:]])


@pytest.mark.parametrize(
    ("fault", "noise", "runs", "epoch"),
    [
        (helped, NO_DROPOUT, 1, 5),
        (helped, NO_DROPOUT, 6, 5),
        (lambda losses: np.concatenate([2 * losses[:1], losses[:-1]]), NO_DROPOUT, 1, 1),
        (lambda losses: losses**0.7, NO_DROPOUT, 1, 1),
        (lambda losses: losses**0.7, DROPOUT, 6, None),
    ],
    ids=["helped", "helped, 6 pairs", "late by an epoch", "averaged weights", "averaged weights, with dropout"],
)
def test_evaluations_of_other_weights_are_found(fault, noise, runs, epoch):
    assert first_difference(*evaluated(noise, runs)) is None
    found = first_difference(*evaluated(noise, runs, fault))
    assert "the test loss" in found.words
    assert epoch in (None, found.epoch)


def test_where_another_order_would_show():
    assert ordered_epochs(simulated(NO_DROPOUT)) == EPOCHS
    assert ordered_epochs(simulated(NO_DROPOUT, steps=7)) == 2
    coming_apart = simulated(NO_DROPOUT)[:3] + simulated(1.0)[3:]
    assert ordered_epochs(coming_apart) == 4  # what is expected of an epoch follows from those before it


def test_a_training_that_comes_apart_within_an_epoch_shows_no_other_order():
    """As ResNet-50 does: what is left of the correlation is little at once."""
    for runs in (8, 40):
        epochs = [np.concatenate([simulated(NO_DROPOUT, runs)[0][..., :8], simulated(3.0, runs)[0]], axis=-1)]
        epochs += [np.concatenate([one[..., :8], one[..., ::-1]], axis=-1) for one in simulated(3.0, runs, seed=2)]
        assert first_difference(epochs) is None
