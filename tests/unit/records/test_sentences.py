"""How a run ended, in a sentence."""

import pytest

from trainmark.records.sentences import pair_lines, run_sentence

OK = {
    "result": {"test_loss": 0.123456, "test_accuracy": 0.98765, "training_seconds": 12.3456},
    "diverged": None, "out_of_memory": None, "disturbed": None, "other_attempts": [], "curves": [], "resumes": 0,
}  # fmt: skip
OK_SENTENCE = "test accuracy 0.9877, test loss 0.1235, 12.35 s of training"
CAUSES = [
    {"cause": "foreign load", "epochs": [[1, 2]], "value": 0.4701, "limit": 0.0412},
    {"cause": "stopped", "epochs": [[2, 2]], "value": 0.123, "limit": 0.01},
]
NOTHING = dict.fromkeys(OK["result"])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, OK_SENTENCE),
        (
            {"disturbed": {"causes": CAUSES[:1], "programs": [{"name": "firefox"}, {"name": "make"}]}},
            f"{OK_SENTENCE}; disturbed: other work, mostly firefox and make, took 47.0 % of its CPUs, the limit is "
            "4.1 %",
        ),
        ({"resumes": 2}, f"{OK_SENTENCE}; resumed 2 times"),
        (
            {"disturbed": {"causes": CAUSES}},
            f"{OK_SENTENCE}; disturbed: other work took 47.0 % of its CPUs, the limit is 4.1 % and it was stopped for "
            "12.3 % of the time, the limit is 1.0 %",
        ),
        (
            {"diverged": {"kind": "nan", "epoch": 2, "step": 17, "last_finite_loss": 3.5}},
            "diverged: loss is nan at step 17, epoch 2, 12.35 s of training",
        ),
        (
            {"out_of_memory": {"phase": "data_load", "epoch": None, "message": "the limit"}, "result": NOTHING},
            "out of memory in data load: the limit",
        ),
        ({"result": OK["result"] | {"test_loss": 2.6322135427396e37}}, OK_SENTENCE.replace("0.1235", "2.632e+37")),
    ],
)
def test_a_run_in_a_sentence(changes, sentence):
    assert run_sentence(OK | changes) == sentence


def test_equal_pairs_share_a_line_and_others_keep_their_own():
    words = [
        "equal up to rounding (largest difference 2.1e-15)",
        "equal up to rounding (largest difference 3.0e-14)",
        "different (largest difference 0.5): they diverge",
        "different (largest difference 0.5): they diverge",
    ]
    pairs = [{"first": "a", "second": str(i), "sentence": sentence} for i, sentence in enumerate(words)]
    assert list(pair_lines(pairs)) == [
        "2 pairs: equal up to rounding (largest difference 3.0e-14)", *(f"a and {i}: {words[i]}" for i in (2, 3))
    ]  # fmt: skip
    assert list(pair_lines(pairs[:1])) == [f"a and 0: {words[0]}"]
