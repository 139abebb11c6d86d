"""The class of two trainers, and where they part: a fake trainer that errs in one place is held against a right one."""

import re
from dataclasses import replace
from itertools import count

import numpy as np
import pytest
from fake_trainer import ARCHITECTURE, MOMENTUM, SHAPE_ERROR, FakeAdapter, failing, plan, spoiling, untouched

from trainmark.parity.certified_steps import STAGES, trace
from trainmark.parity.compare import Place, compare, parting_place


def traced(spoil=untouched, name="b", of=None):
    return trace(FakeAdapter(name, spoil), of or plan(), "cpu")


@pytest.fixture(scope="module")
def right():
    return traced(name="a")


@pytest.fixture(scope="module")
def compared(right):
    """A function that compares a fake trainer that errs with the right one."""
    return lambda spoil, **options: compare(right, traced(spoil, **options), ARCHITECTURE)


def with_the_optimizer(spoil):
    """A `spoil` that errs in the stages with the recipe's optimizer alone: the network is built anew for them."""
    builds = []

    def spoil_there(what, step, name, array):
        if what == "build":
            builds.append(step)
        return spoil(what, step, name, array) if len(builds) == 2 else array

    return spoil_there


def test_equal_bits_are_bitwise(compared):
    pair = compared(untouched)
    assert (pair.first, pair.second, pair.parity, pair.sentence) == ("a on cpu", "b on cpu", "bitwise", "bitwise equal")
    assert {name: stage["parity"] for name, stage in pair.stages.items()} == dict.fromkeys(
        ["network", "steps", "masks"], "bitwise"
    )
    assert (pair.place, pair.causes) == (None, ())
    assert set(pair.float32.values()) == {0.0}
    assert (pair.epochs, pair.drift) == (None, None)


@pytest.mark.parametrize(
    ("factor", "parity"), [(1e-15, "rounding"), (1e-11, "rounding"), (1e-7, "single"), (1e-2, "different")]
)
def test_class_goes_by_the_largest_difference(compared, factor, parity):
    pair = compared(spoiling("forward", "dense1", factor))
    assert pair.parity == parity
    assert (pair.place is None) == (parity == "rounding")
    largest = max(value for stage in pair.stages.values() for value in stage.values() if isinstance(value, float))
    assert f"{largest:.1e}" in pair.sentence


PLACES = [
    (("first", "dense2.kernel", None), Place("network", 0, "dense2", "Dense", "initial weights", 0.01)),
    (("forward", "norm", 1), Place("network", 1, "norm", "BatchNorm", "forward", 0.01)),
    (("forward", "drop", None), Place("network", 1, "drop", "Dropout", "forward", 0.01)),
    (("loss", "loss", 1), Place("network", 1, None, None, "loss", 0.01)),
    (("loss", "loss", 7), Place("steps", 7, None, None, "loss", 0.01)),
    (("backward", "dense1.bias", 1), Place("network", 1, "dense1", "Dense", "backward", None)),
    (("backward", "norm.gamma", 4), Place("steps", 4, "norm", "BatchNorm", "backward", None)),
    (("update", "dense2.kernel", 1), Place("network", 1, "dense2", "Dense", "rule", 0.01)),
    (("update", "dense1.kernel", 3), Place("steps", 3, "dense1", "Dense", "rule", 0.01)),
    (("statistics", "norm.moving_mean", 2), Place("steps", 2, "norm", "BatchNorm", "running statistics", None)),
    (("evaluation", "relu", None), Place("network", 10, "relu", "ReLU", "evaluation", 0.01)),
]


@pytest.mark.parametrize(("error", "place"), PLACES, ids=[" ".join(map(str, error)) for error, _ in PLACES])
@pytest.mark.parametrize("factor", [0.01, 1e-7])
def test_place_is_that_of_the_error(compared, error, place, factor):
    """Also where the difference stays small: what it does to all that follows does not hide where it began."""
    what, name, step = error
    pair = compared(spoiling(what, name, factor, step))
    assert pair.parity in (("different",) if factor == 0.01 else ("single", "different"))
    found = pair.place
    assert (found.stage, found.step, found.layer, found.op, found.what) == (
        place.stage, place.step, place.layer, place.op, place.what,
    )  # fmt: skip
    expected = place.difference and place.difference * factor / 0.01
    assert found.difference == pytest.approx(expected, rel=0.1) if expected else 0 < found.difference < 1.2 * factor
    assert pair.causes == (found,)


def test_what_an_epoch_of_several_batches_leaves_is_compared(compared):
    """An adapter that loses its last update shows it nowhere else: the steps are taken one by one."""

    class Forgetful(FakeAdapter):
        def train_epoch(self, feed):
            losses = super().train_epoch(feed)
            if feed.steps > 1:
                self.values["dense2.bias"] = self.values["dense2.bias"] + 0.1
            return losses

    pair = compare(traced(), trace(Forgetful("b"), plan(), "cpu"), ARCHITECTURE)
    assert (pair.parity, pair.place.what, pair.place.layer, pair.place.step) == ("different", "epoch", "dense2", 2)
    assert "the weights or statistics of dense2 (Dense) after an epoch of several batches, step 2" in pair.sentence


def test_sentence_names_layer_op_step_and_rule(compared):
    sentence = compared(spoiling("update", "dense1.kernel", 0.01, step=3)).sentence
    assert "they part in the update of dense1 (Dense), which is not that of momentum_sgd, step 3: " in sentence
    sentence = compared(spoiling("forward", "norm", 1e-7)).sentence
    assert sentence.startswith("equal to single precision, ")
    assert ": computed in float32 in the forward of norm (BatchNorm), step 1: 1.0e-07" in sentence


@pytest.mark.parametrize(("error", "parity"), [(2e-7, "single"), (1.5e-6, "different")])
def test_an_error_does_not_hide_behind_a_known_float32(right, error, parity):
    """Dense is known, the normalisation is not: what it adds must be no more than float32 may hand on."""

    def spoil(what, step, name, array):
        if (what, name) == ("forward", "dense1"):
            return array * (1 + 1e-7 * np.sign(np.arange(array.size) % 2 - 0.5).reshape(array.shape))
        return array * (1 + error) if (what, name) == ("forward", "norm") else array

    wrong = trace(FakeAdapter("b", spoil, float32_ops=("Dense",)), plan(), "cpu")
    pair = compare(replace(right, float32_ops=()), wrong, ARCHITECTURE)
    assert pair.parity == parity
    assert (pair.place.layer, pair.place.what) == ("dense1" if parity == "single" else "norm", "forward")


def test_error_in_a_dropout_mask_is_seen_with_dropout_alone(compared, right):
    spoil = spoiling("forward", "drop", 0.5)
    wrong = trace(FakeAdapter("b", spoil), plan(), "cpu", stages={"masks": STAGES["masks"]})
    mixed = replace(right, framework="b", stages={**right.stages, **wrong.stages})
    pair = compare(right, mixed, ARCHITECTURE)
    assert [stage["parity"] for stage in pair.stages.values()] == ["bitwise", "bitwise", "different"]
    assert (pair.place.stage, pair.place.layer) == ("masks", "drop")
    assert "with dropout" in pair.sentence


@pytest.mark.parametrize(
    ("what", "name", "told"),
    [
        ("forward", "norm", "the forward of norm (BatchNorm)"),
        ("backward", "dense2.kernel", "the backward of dense2 (Dense)"),
        ("loss", "loss", "the loss, or the batch that it is of"),
    ],
)
def test_less_than_float32_is_named_at_its_part(compared, what, name, told):
    """bfloat16 rounds by 4e-3; float32's own rounding, in an honest trainer, decides nothing."""
    assert compared(spoiling(what, name, 1e-7, dtype="float32")).parity == "bitwise"
    pair = compared(spoiling(what, name, 1e-3, dtype="float32"))
    assert (pair.parity, pair.place) == ("different", None)
    assert re.search(
        rf"less than float32, or another training, in {re.escape(told)}: (1.0e-03|[6-9].\de-04), where rounding makes",
        pair.sentence,
    )
    assert "float32" not in pair.stages


def test_a_kink_in_nine_of_ten_batches_is_not_less_than_float32(compared):
    """In GoogLeNet rounding pushes a hidden unit over ReLU's kink in half of the batches (inception4e_1x1)."""
    batches = count()

    def spoil(what, step, name, array):
        kinked = (what, name) == ("backward", "dense2.kernel") and array.dtype == "float32" and next(batches) % 10
        return array * 1.01 if kinked else array

    pair = compared(spoil)
    assert next(batches) == 20
    assert (pair.parity, pair.reasons) == ("bitwise", ())
    assert pair.float32["backward"] > 5e-3


def test_two_byte_numbers_are_a_sentence(right):
    class Bytes(FakeAdapter):
        def predict(self, split):
            return super().predict(split).astype(np.float16)

    pair = compare(right, trace(Bytes("b"), plan(), "cpu"), ARCHITECTURE)
    assert pair.parity == "different"
    assert "b gives the prediction of dense2 in float16, and trainmark compares float32 and float64" in pair.sentence


@pytest.mark.parametrize("step", [1, 6])
def test_another_order_of_the_batches_is_named(right, step):
    batches = plan().batches.copy()
    batches[step - 1, 0], batches[step % 10, 0] = batches[step % 10, 0], batches[step - 1, 0]
    pair = compare(right, traced(of=plan(batches=batches)), ARCHITECTURE)
    assert pair.parity == "different"
    assert (pair.place.step, pair.place.what) == (step, "input" if step == 1 else "loss")


def test_an_array_that_is_not_there_is_named_by_its_layer(right):
    class Biasless(FakeAdapter):
        def weights(self):
            return {name: array for name, array in super().weights().items() if name != "dense1.bias"}

    pair = compare(right, trace(Biasless("b"), plan(), "cpu"), ARCHITECTURE)
    assert (pair.parity, pair.place.layer, pair.place.what) == ("different", "dense1", "initial weights")
    assert pair.place.difference == float("inf")


def test_a_layer_of_another_shape_is_named(compared):
    pair = compared(failing("forward", "relu", SHAPE_ERROR))
    assert (pair.parity, pair.place.layer, pair.place.op) == ("different", "relu", "ReLU")
    assert "the layer relu gives the shape (6,), and the architecture says (5,)" in pair.sentence


def test_out_of_memory_certifies_nothing(compared, right):
    pair = compared(failing("forward", "relu", MemoryError("no")))
    assert (pair.parity, pair.place, pair.stages, pair.drift) == ("not certified", None, {}, None)
    assert pair.sentence == "not certified: b on cpu ran out of memory (MemoryError)"
    shape = traced(failing("forward", "relu", SHAPE_ERROR), name="c")
    assert compare(traced(failing("loss", "loss", MemoryError())), shape, ARCHITECTURE).parity == "different"


def test_not_a_number_is_different(compared):
    pair = compared(spoiling("loss", "loss", float("nan"), step=5))
    assert (pair.parity, pair.place.step, pair.place.what) == ("different", 5, "loss")


def places(*differences):
    return [Place("steps", i, "l", "Dense", "update", difference) for i, difference in enumerate(differences)]


@pytest.mark.parametrize(
    ("differences", "place", "causes"),
    [
        ([1e-16, 1e-7, 1e-6, 1e-5], 1, [1]),  # it grows, and began where it jumped
        ([1e-16, 1e-7, 1e-6, 1e-2, 1e-1], 1, [1, 3]),  # a second cause is not hidden by the first
        ([1e-16, 1e-14, 9e-13], 2, []),  # below noise nothing is a cause
        ([1e-15, 5e-14, 2e-12, 9e-11, 4e-9, 2e-8], 4, []),  # slowly: where it leaves rounding
        ([0.0, float("inf"), 1e-3], 1, [1]),
    ],
)
def test_parting_place_is_the_first_that_what_came_before_does_not_explain(differences, place, causes):
    found, all_causes = parting_place(places(*differences))
    assert found.step == place
    assert [one.step for one in all_causes] == causes


def test_known_float32_does_not_hide_where_a_pair_parts():
    """An op that is known to compute in float32 explains what is as small as that, and nothing larger."""
    assert parting_place(places(1e-16, 1e-7, 1e-6, 1e-2), {"Dense"})[0].step == 3
    assert parting_place(places(1e-16, 1e-7, 1e-6, 1e-2), {"LRN"})[0].step == 1
    assert parting_place(places(1e-16, 1e-3, 1e-2), {"Dense"})[0].step == 1


def test_a_small_difference_is_single_only_where_float32_is_known(right):
    """A wrong constant may be as small: epsilon 1e-5 for 2e-5."""
    spoil = spoiling("forward", "norm", 1e-7)
    for ops, parity in ((("BatchNorm",), "single"), (("Dense",), "different"), ((), "different")):
        fake = replace(trace(FakeAdapter("b", spoil, ops), plan(), "cpu"))
        pair = compare(replace(right, float32_ops=()), fake, ARCHITECTURE)
        assert (pair.parity, pair.place.layer, pair.place.what) == (parity, "norm", "forward")
        assert pair.stages["network"]["parity"] == parity


def test_two_that_diverge_are_not_certified(compared, right):
    nan = spoiling("loss", "loss", float("nan"), step=5)
    pair = compare(traced(nan, name="a"), traced(nan, name="b"), ARCHITECTURE)
    assert (pair.parity, pair.place) == ("not certified", None)
    assert pair.sentence == "not certified: the losses of both are not finite, in the stage steps"


def test_another_order_within_an_epoch_is_seen(right):
    class Shuffling(FakeAdapter):
        def train_epoch(self, feed):
            return super().train_epoch(replace(feed, order=feed.order[::-1]))

    pair = compare(right, trace(Shuffling("b"), plan(), "cpu"), ARCHITECTURE)
    assert (pair.parity, pair.place.stage, pair.place.what) == ("different", "steps", "epoch")
    assert "other batches, or another order" in pair.sentence


def test_a_prediction_that_is_not_the_evaluation_is_seen(right):
    class Predicting(FakeAdapter):
        def predict(self, split):
            return 1.5 * super().predict(split)

    pair = compare(right, trace(Predicting("b"), plan(), "cpu"), ARCHITECTURE)
    assert (pair.parity, pair.place.layer, pair.place.what) == ("different", "dense2", "evaluation")


def test_stage_of_the_place_is_the_simplest_that_has_the_class(compared):
    """A wrong forward shows in every stage; the network itself, by plain SGD, is told first."""
    assert compared(spoiling("forward", "dense2", 0.1)).place.stage == "network"
    assert compared(with_the_optimizer(spoiling("forward", "dense2", 0.1, step=2))).place.stage == "steps"


def test_rule_of_the_sentence_is_that_of_its_stage(right):
    assert {name: stage.rule for name, stage in right.stages.items()} == {
        "network": "sgd", "steps": MOMENTUM.rule, "masks": MOMENTUM.rule, "twin": MOMENTUM.rule,
        "float32": "sgd", "float32 copy": "sgd",
    }  # fmt: skip
    assert [len(right.stages[name].losses) for name in ("network", "steps")] == [10, 10]
    assert np.isfinite(right.stages["steps"].losses).all()


# --- steps that count ---------------------------------------------------------------------------------------------


def chaotic(step, factor):
    """A `spoil` that parts a training from its twin: an update from `step` on magnifies what the weights differ in."""
    exact = np.float64(plan().weights["dense1.kernel"][0, 0])

    def spoil(what, at, name, array):
        if what in ("first", "state") and name == "dense1.kernel":
            spoil.apart = np.float64(array[0, 0]) - exact
        return array + factor * spoil.apart if (what, name) == ("update", "dense1.kernel") and at >= step else array

    return spoil


def test_all_steps_count_where_a_trainer_and_its_twin_stay_together(compared):
    pair = compared(spoiling("update", "dense1.kernel", 1e-11, step=9))
    assert {name: stage["steps"] for name, stage in pair.stages.items()} == {"network": 10, "steps": 10, "masks": 10}
    assert "count" not in pair.sentence


def test_steps_count_until_the_training_by_itself_turns_rounding_into_more(right):
    """Two trainers part from their twins after step 4; what they differ in after it decides nothing."""
    first = traced(chaotic(5, 1e9), name="a")
    late, early = (
        traced(_both(chaotic(5, 1e9), with_the_optimizer(spoiling("loss", "loss", 0.01, step))), name="b")
        for step in (6, 4)
    )
    pair = compare(first, late, ARCHITECTURE)
    assert pair.parity == "bitwise"
    assert {name: stage["steps"] for name, stage in pair.stages.items()} == {"network": 10, "steps": 4, "masks": 4}
    assert (pair.stages["steps"]["evaluation"], pair.stages["steps"]["weights"]) == (None, 0)
    assert pair.sentence.endswith(
        "; 4 of the steps count, since later ones turn a change in a last bit into more than 1e-10 by themselves"
    )
    pair = compare(first, early, ARCHITECTURE)
    assert (pair.parity, pair.place.step, pair.place.what) == ("different", 4, "loss")
    assert compare(right, late, ARCHITECTURE).place.step == 6, "one that is stable shows that the training is"


def test_an_update_that_is_not_the_rules_is_seen_in_every_step():
    """Also where the steps count no more, and where both trainers err alike."""
    wild = traced(chaotic(5, 1e9), name="a")
    wrong = with_the_optimizer(spoiling("update", "dense2.kernel", 0.01, step=8))
    off = traced(_both(chaotic(5, 1e9), wrong), name="b")
    pair = compare(wild, off, ARCHITECTURE)
    assert pair.stages["steps"]["steps"] == 4
    assert pair.parity == pair.stages["steps"]["parity"] == "different"
    assert (pair.place.stage, pair.place.step, pair.place.layer, pair.place.what) == ("steps", 8, "dense2", "rule")
    assert pair.place.difference == pair.stages["steps"]["updates"] == pytest.approx(0.01, rel=0.2)
    alike = compare(off, off, ARCHITECTURE)
    assert (alike.parity, alike.place.step, alike.place.what) == ("different", 8, "rule")


@pytest.mark.parametrize("factor", [1e-3, 1e-7])
def test_two_that_err_alike_in_a_step_that_counts_are_different(factor):
    """Nothing parts them, and it is not the recipe's training: a known float32 explains no wrong rule."""
    off = traced(with_the_optimizer(spoiling("update", "dense2.kernel", factor, step=2)))
    pair = compare(off, replace(off, framework="c"), ARCHITECTURE)
    assert (pair.parity, pair.place.step, pair.place.layer, pair.place.what) == ("different", 2, "dense2", "rule")
    assert (pair.stages["network"]["parity"], pair.stages["steps"]["parity"]) == ("bitwise", "different")


def test_where_one_step_counts_the_epoch_does_not_and_the_sentence_says_so():
    pair = compare(traced(chaotic(2, 1e9)), traced(chaotic(2, 1e9)), ARCHITECTURE)
    assert pair.stages["steps"]["steps"] == 1
    assert pair.sentence.endswith(" by themselves, and an epoch of several batches is not compared")


def test_without_a_twin_all_steps_count_unless_the_other_trainer_has_one():
    wild, lone = traced(chaotic(5, 1e9)), trace(FakeAdapter("c"), plan(), "cpu", {"steps": STAGES["steps"]})
    assert compare(lone, lone, ARCHITECTURE).stages["steps"]["steps"] == 10
    assert compare(lone, wild, ARCHITECTURE).stages["steps"]["steps"] == 4


def test_one_step_counts_at_the_least():
    wild = traced(chaotic(1, 1e9))
    assert compare(wild, wild, ARCHITECTURE).stages["steps"]["steps"] == 1


def _both(first, second):
    return lambda what, at, name, array: second(what, at, name, first(what, at, name, array))
