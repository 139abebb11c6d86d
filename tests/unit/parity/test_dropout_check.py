"""Masks that are not drawn independently, however far apart or in whichever order they repeat."""

import numpy as np
import pytest

from trainmark.parity.dropout_check import Layer, dropout_seeds, side_by_side, wrong_draws

EPOCHS, STEPS, SAMPLES = 8, 8, 16
SEEDS = list(range(100, 100 + EPOCHS))
MAP, VECTOR = Layer("map", (32, 4, 4), 0.5), Layer("vector", (512,), 0.2)
TWO = (VECTOR, Layer("other", (512,), 0.2))
GENERATOR = np.random.default_rng(1)


def drawn(layers):
    return [GENERATOR.random((EPOCHS, STEPS, SAMPLES, *layer.shape)) < layer.rate for layer in layers]


def half_repeated(first, second):
    first[..., 256:] = first[..., :256]


def last_tenth_repeated(first, second):
    first[..., 461:] = first[..., :51]


def two_in_turns(first, second):
    first[:, 2:] = first[:, [0, 1] * 3]


def every_third_sample(first, second):
    first[:, :, 3:15:3] = first[:, :, :1]


def seven_in_turns(first, second):
    steps = first.reshape(EPOCHS * STEPS, SAMPLES, -1)
    steps[:] = steps[np.arange(len(steps)) % 7]


def of_a_pool(first, second):
    samples = first.reshape(-1, 512)
    samples[:] = samples[GENERATOR.integers(0, 20, len(samples))]


def equal_layers(first, second):
    second[:] = first


def equal_layers_in_one_epoch(first, second):
    second[5] = first[5]


def complements(first, second):
    second[:] = ~first


def one_epoch_again(first, second):
    first[6] = first[1]


def one_for_all_samples(first, second):
    second[:] = second[:, :, :1]


def halves_mirrored(first, second):
    first[:, :, 8:] = first[:, :, 7::-1, ::-1]


def rolled(first, second):
    for sample in range(1, SAMPLES):
        first[:, :, sample] = np.roll(first[:, :, 0], sample, axis=-1)


def a_fixed_number(first, second):
    first[:] = np.argsort(GENERATOR.random(first.shape)) < 102


def whole_channels(first, second):
    first[:] = first[..., :1, :1]


def same_numbers_in_layers(first, second):
    numbers = GENERATOR.random((EPOCHS, STEPS, SAMPLES * 512))
    first[:], second[:] = (numbers.reshape(one.shape) < layer.rate for one, layer in ((first, MAP), (second, VECTOR)))


CASES = [
    (half_repeated, TWO, "the units of a layer"),
    (last_tenth_repeated, TWO, "the units of a layer"),
    (two_in_turns, TWO, "the steps of an epoch"),
    (every_third_sample, TWO, "the samples of a batch"),
    (seven_in_turns, TWO, "the epochs of a run, with the seeds "),
    (of_a_pool, TWO, "the samples of a batch"),
    (equal_layers, TWO, "the layers vector and other"),
    (equal_layers_in_one_epoch, TWO, "the layers vector and other"),
    (complements, TWO, "the layers vector and other: 0.0 %"),
    (one_epoch_again, TWO, "the epochs of a run, with the seeds 101 and 106"),
    (one_for_all_samples, TWO, "the samples of a batch"),
    (halves_mirrored, TWO, "the samples of a batch"),
    (rolled, TWO, "the samples of a batch"),
    (a_fixed_number, TWO, "the units of a layer, vector"),
    (whole_channels, (MAP, VECTOR), "the units of a layer"),
    (same_numbers_in_layers, (MAP, VECTOR), "the layers map and vector"),
]


@pytest.mark.parametrize(("spoil", "layers", "what"), CASES, ids=[case[0].__name__ for case in CASES])
def test_dependent_masks_are_named(spoil, layers, what):
    dropped = drawn(layers)
    spoil(*dropped)
    assert wrong_draws(layers, dropped, SEEDS).startswith(f"does not draw dropout masks independently for {what}")


@pytest.mark.parametrize("layers", [TWO, (MAP, VECTOR), (Layer("rare", (12,), 0.001),), (Layer("most", (250,), 0.9),)])
def test_independent_masks_are_accepted(layers):
    assert [wrong_draws(layers, drawn(layers), SEEDS) for _ in range(3)] == [None] * 3


def test_a_wrong_rate_is_named():
    dropped = drawn([Layer("vector", (512,), 0.205)])
    assert wrong_draws([VECTOR], dropped, SEEDS).startswith("drops 20.")


def test_seeds_are_those_of_runs_and_alike():
    """Whatever lower bits, higher bits or decimal digits masks depend on, two of the seeds have the same."""
    seeds = dropout_seeds((1, 1))
    assert len(set(seeds)) == EPOCHS
    assert all(0 <= seed < 2**31 for seed in seeds)
    for of_seed in (lambda seed: seed % 2**30, lambda seed: seed // 2, lambda seed: seed % 1000, np.float32):
        assert len(set(map(of_seed, seeds))) < EPOCHS


def test_each_layer_has_its_own_shape():
    of_sequences = (Layer("words", (50, 40), 0.2), Layer("vector", (250,), 0.2))
    of_images = (Layer("map", (8, 6, 6), 0.5), Layer("small", (4, 2, 2), 0.4), Layer("vector", (250,), 0.2))
    for layers in (of_sequences, of_images):
        shapes = side_by_side(layers, 9).shapes()
        assert all(shapes[layer.name] == layer.shape for layer in layers)
        assert shapes["read"] == (9,)
