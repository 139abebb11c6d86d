"""The class of two trainers and where they diverge: a fake trainer with one error is compared with a correct one."""

from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from fake_trainer import (
    ARCHITECTURE,
    SHAPE_ERROR,
    FakeAdapter,
    failing,
    fake_training,
    spoiling,
    trace,
    untouched,
)

from trainmark.frameworks.adapter import Adapter
from trainmark.parity.certified_steps import STAGES
from trainmark.parity.compare import Location, compare, find_divergence
from trainmark.trainer import Trainer


def traced(spoil=untouched, name="b", of=None):
    return trace(FakeAdapter(name, spoil), of or fake_training(), "cpu")


@pytest.fixture(scope="module")
def right():
    return traced(name="a")


@pytest.fixture(scope="module")
def compared(right):
    """A function that compares a fake trainer that errs with the right one."""
    return lambda spoil, **options: compare(right, traced(spoil, **options), ARCHITECTURE)


def in_the_steps(spoil):
    """A `spoil` that errs in the certified steps alone: the network is built anew for what follows them."""
    builds = []

    def spoil_there(what, step, name, array):
        if what == "build":
            builds.append(step)
        return spoil(what, step, name, array) if len(builds) == 1 else array

    return spoil_there


def test_equal_bits_are_bitwise(compared):
    pair = compared(untouched)
    assert (pair.first, pair.second, pair.parity, pair.sentence) == ("a on cpu", "b on cpu", "bitwise", "bitwise equal")
    assert {name: stage["parity"] for name, stage in pair.stages.items()} == dict.fromkeys(
        ["network", "steps", "masks"], "bitwise"
    )
    assert (pair.location, pair.causes) == (None, ())
    assert max(pair.float32.values()) < 1e-4
    assert pair.epochs is None


@pytest.mark.parametrize(
    ("factor", "parity"), [(1e-15, "rounding"), (1e-11, "rounding"), (1e-7, "single"), (1e-2, "different")]
)
def test_class_goes_by_the_largest_difference(compared, factor, parity):
    pair = compared(spoiling("forward", "dense1", factor))
    assert pair.parity == parity
    assert (pair.location is None) == (parity == "rounding")
    largest = max(value for stage in pair.stages.values() for value in stage.values() if isinstance(value, float))
    assert f"{largest:.1e}" in pair.sentence


LOCATIONS = [
    (("first", "dense2.kernel", None), Location("network", 0, "dense2", "Dense", "initial weights", 0.01)),
    (("forward", "norm", 1), Location("network", 1, "norm", "BatchNorm", "forward", 0.01)),
    (("forward", "drop", None), Location("network", 1, "drop", "Dropout", "forward", 0.01)),
    (("loss", "loss", 1), Location("network", 1, None, None, "loss", 0.01)),
    (("loss", "loss", 7), Location("steps", 7, None, None, "loss", 0.01)),
    (("backward", "dense1.bias", 1), Location("network", 1, "dense1", "Dense", "backward", None)),
    (("backward", "norm.gamma", 4), Location("steps", 4, "norm", "BatchNorm", "backward", None)),
    (("update", "dense2.kernel", 1), Location("steps", 1, "dense2", "Dense", "rule", 0.01)),
    (("update", "dense1.kernel", 3), Location("steps", 3, "dense1", "Dense", "rule", 0.01)),
    (("statistics", "norm.moving_mean", 2), Location("steps", 2, "norm", "BatchNorm", "running statistics", None)),
    (("evaluation", "relu", None), Location("network", 3, "relu", "ReLU", "evaluation", 0.01)),
]


@pytest.mark.parametrize(("error", "location"), LOCATIONS, ids=[" ".join(map(str, error)) for error, _ in LOCATIONS])
@pytest.mark.parametrize("factor", [0.01, 1e-7])
def test_location_is_that_of_the_error(compared, error, location, factor):
    """Also if the difference is small: its effect on everything after it does not hide where it originates."""
    what, name, step = error
    pair = compared(spoiling(what, name, factor, step))
    assert pair.parity in (("different",) if factor == 0.01 else ("single", "different"))
    found = pair.location
    assert (found.stage, found.step, found.layer, found.op, found.what) == (
        location.stage, location.step, location.layer, location.op, location.what,
    )  # fmt: skip
    expected = location.difference and location.difference * factor / 0.01
    assert found.difference == pytest.approx(expected, rel=0.1) if expected else 0 < found.difference < 1.2 * factor
    assert pair.causes == (found,)


@pytest.mark.parametrize(("error", "parity"), [(2e-7, "single"), (1.5e-6, "different")])
def test_an_error_does_not_hide_behind_a_known_float32(right, error, parity):
    """Dense is known to run in float32, BatchNorm is not: it must not add more than float32 may amplify."""

    def spoil(what, step, name, array):
        if (what, name) == ("forward", "dense1"):
            return array * (1 + 1e-7 * np.sign(np.arange(array.size) % 2 - 0.5).reshape(array.shape))
        return array * (1 + error) if (what, name) == ("forward", "norm") else array

    wrong = trace(FakeAdapter("b", spoil, float32_ops=("Dense",)), fake_training(), "cpu")
    pair = compare(replace(right, float32_ops=()), wrong, ARCHITECTURE)
    assert pair.parity == parity
    assert (pair.location.layer, pair.location.what) == ("dense1" if parity == "single" else "norm", "forward")


def test_an_adapter_that_shows_no_gradients_is_not_certified(right):
    core = dict.fromkeys(Adapter.__abstractmethods__, lambda *_, **__: None)
    silent = type("SilentAdapter", (Adapter,), core | {"versions": lambda self: {"b": "1"}})
    pair = compare(right, trace(silent("b", 1), fake_training(), "cpu"), ARCHITECTURE)
    assert (pair.parity, pair.sentence) == ("not certified", "not certified: b does not show its gradients")


def test_an_error_in_dropout_shows_in_the_stage_with_masks_only(compared, right):
    spoil = spoiling("forward", "drop", 0.5)
    wrong = trace(FakeAdapter("b", spoil), fake_training(), "cpu", stages={"masks": STAGES["masks"]})
    mixed = replace(right, trainer=Trainer("b", "cpu"), stages={**right.stages, **wrong.stages})
    pair = compare(right, mixed, ARCHITECTURE)
    assert [stage["parity"] for stage in pair.stages.values()] == ["bitwise", "bitwise", "different"]
    assert (pair.location.stage, pair.location.layer) == ("masks", "drop")
    assert "with dropout" in pair.sentence


@pytest.mark.parametrize(
    ("what", "name", "words"),
    [
        ("forward", "norm", "the forward pass of norm (BatchNorm)"),
        ("backward", "dense2.kernel", "the backward pass of dense2 (Dense)"),
        ("loss", "loss", "the loss (or the batch that it belongs to)"),
    ],
)
def test_arithmetic_less_precise_than_float32_is_located(right, compared, what, name, words):
    """TensorFloat-32 rounds by 5e-4. float32's own rounding is accepted, and no other trainer excuses more."""
    assert compared(spoiling(what, name, 1e-8, dtype="float32")).parity == "bitwise"
    imprecise = traced(spoiling(what, name, 1e-4, dtype="float32"))
    for other in (right, imprecise):
        pair = compare(other, imprecise, ARCHITECTURE)
        assert (pair.parity, pair.location) == ("different", None)
        assert f"b on cpu is less precise than float32, or computes something else, in {words}: " in pair.sentence


def test_a_kink_in_two_of_three_batches_is_accepted_as_float32(compared):
    """In GoogLeNet rounding pushes a hidden unit over ReLU's kink in half of the batches (inception4e_1x1)."""
    batches = count()

    def spoil(what, step, name, array):
        in_float32 = (what, name) == ("backward", "dense2.kernel") and array.dtype == "float32"
        return array * 1.01 if in_float32 and next(batches) < 2 else array

    pair = compared(spoil)
    assert next(batches) == 3, "once in each batch"
    assert (pair.parity, pair.reasons) == ("bitwise", ())


def test_a_layer_of_another_shape_is_named(compared):
    pair = compared(failing("forward", "relu", SHAPE_ERROR))
    assert (pair.parity, pair.location.layer, pair.location.op) == ("different", "relu", "ReLU")
    assert "the layer relu gives the shape (6,), and the architecture says (5,)" in pair.sentence


def test_out_of_memory_certifies_nothing(compared, right):
    pair = compared(failing("forward", "relu", MemoryError("no")))
    assert (pair.parity, pair.location, pair.stages, pair.epochs) == ("not certified", None, {}, None)
    assert pair.sentence == "not certified: b on cpu ran out of memory (MemoryError)"
    shape = traced(failing("forward", "relu", SHAPE_ERROR), name="c")
    assert compare(traced(failing("loss", "loss", MemoryError())), shape, ARCHITECTURE).parity == "different"


def locations(*differences):
    return [Location("steps", i, "l", "Dense", "update", difference) for i, difference in enumerate(differences)]


@pytest.mark.parametrize(
    ("differences", "step", "causes"),
    [
        ([1e-16, 1e-7, 1e-6, 1e-5], 1, [1]),  # it grows after the jump, where it originates
        ([1e-16, 1e-7, 1e-6, 1e-2, 1e-1], 1, [1, 3]),  # a second cause is not hidden by the first
        ([1e-16, 1e-14, 9e-13], 2, []),  # nothing below NOISE is a cause
        ([1e-15, 5e-14, 2e-12, 9e-11, 4e-9, 2e-8], 4, []),  # slow growth: the first location outside `rounding`
        ([0.0, float("inf"), 1e-3], 1, [1]),
    ],
)
def test_the_divergence_is_the_first_difference_that_earlier_ones_do_not_explain(differences, step, causes):
    divergence, all_causes = find_divergence(locations(*differences))
    assert divergence.step == step
    assert [one.step for one in all_causes] == causes


def test_a_small_difference_is_single_only_in_an_op_known_to_run_in_float32(right):
    """A wrong constant may cause as small a difference: epsilon 1e-5 instead of 2e-5."""
    spoil = spoiling("forward", "norm", 1e-7)
    for ops, parity in ((("BatchNorm",), "single"), (("Dense",), "different"), ((), "different")):
        fake = replace(trace(FakeAdapter("b", spoil, ops), fake_training(), "cpu"))
        pair = compare(replace(right, float32_ops=()), fake, ARCHITECTURE)
        assert (pair.parity, pair.location.layer, pair.location.what) == (parity, "norm", "forward")
        assert pair.stages["network"]["parity"] == parity


def test_two_trainers_whose_losses_become_nan_are_not_certified(compared, right):
    nan = spoiling("loss", "loss", float("nan"), step=5)
    pair = compare(traced(nan, name="a"), traced(nan, name="b"), ARCHITECTURE)
    assert (pair.parity, pair.location) == ("not certified", None)
    assert pair.sentence == "not certified: both trainers have losses that are not finite, in the stage steps"


# --- comparable steps ---------------------------------------------------------------------------------------------


def chaotic(step, factor):
    """A `spoil` that makes a training diverge from its perturbed copy: updates from `step` on amplify differences."""
    exact = np.float64(fake_training().weights["dense1.kernel"][0, 0])

    def spoil(what, at, name, array):
        if what in ("first", "state") and name == "dense1.kernel":
            spoil.difference = np.float64(array[0, 0]) - exact
        return (
            array + factor * spoil.difference if (what, name) == ("update", "dense1.kernel") and at >= step else array
        )

    return spoil


def test_steps_are_comparable_until_the_training_itself_amplifies_rounding(right):
    """Two trainers diverge from their perturbed copies after step 4; later differences do not matter."""
    first = traced(chaotic(5, 1e9), name="a")
    late, early = (
        traced(_both(chaotic(5, 1e9), in_the_steps(spoiling("loss", "loss", 0.01, step))), name="b") for step in (6, 4)
    )
    pair = compare(first, late, ARCHITECTURE)
    assert pair.parity == "bitwise"
    assert {name: stage["steps"] for name, stage in pair.stages.items()} == {"network": 3, "steps": 4, "masks": 4}
    assert (pair.stages["steps"]["evaluation"], pair.stages["steps"]["weights"]) == (None, 0)
    assert pair.sentence.endswith(
        "; comparable steps: 4 (in later ones the training itself amplifies a last-bit change to more than 1e-10)"
    )
    pair = compare(first, early, ARCHITECTURE)
    assert (pair.parity, pair.location.step, pair.location.what) == ("different", 4, "loss")
    assert compare(right, late, ARCHITECTURE).location.step == 6, "a stable trainer shows that the training is stable"


def test_an_update_that_does_not_follow_the_rule_is_found_in_every_step():
    """Also in steps that are not comparable, and if both trainers have the same error."""
    wild = traced(chaotic(5, 1e9), name="a")
    wrong = in_the_steps(spoiling("update", "dense2.kernel", 0.01, step=8))
    off = traced(_both(chaotic(5, 1e9), wrong), name="b")
    pair = compare(wild, off, ARCHITECTURE)
    assert pair.stages["steps"]["steps"] == 4
    assert pair.parity == pair.stages["steps"]["parity"] == "different"
    assert (pair.location.stage, pair.location.step, pair.location.layer, pair.location.what) == (
        "steps",
        8,
        "dense2",
        "rule",
    )
    assert pair.location.difference == pair.stages["steps"]["updates"] == pytest.approx(0.01, rel=0.2)
    alike = compare(off, off, ARCHITECTURE)
    assert (alike.parity, alike.location.step, alike.location.what) == ("different", 8, "rule")


def _both(first, second):
    return lambda what, at, name, array: second(what, at, name, first(what, at, name, array))
