"""Records are checked against themselves: edited ones are refused, with or without a renewed digest."""

import json
import re
from array import array

import pytest
import records_for_tests
from records_for_tests import changed, record, streamed, with_other_ranks, with_peak

from trainmark.errors import RecordError
from trainmark.records.consistency import contradictions
from trainmark.records.record import read_record, write_record
from trainmark.records.step_losses import encode_step_losses

VALID = {
    "ok": record(epochs=4),
    "diverged": records_for_tests.diverged(),
    "out of memory": records_for_tests.out_of_memory(),
    "on a gpu": record(device="gpu"),
    "tuned, with fewer threads": record(loop="tuned", changes={"provenance.threads": 1}),
    "with a compilation cache": record(
        changes={"compilation_cache": {"hits": 3, "misses": 0}, "settings.compilation_cache": True}
    ),
    "from a stream": streamed(record(epochs=3), waiting=0.25, evaluation_steps=5),
    "from a stream, all of it waiting": streamed(record(changes={"network.dropout": True}), waiting=1.0),
    "diverged from a stream": streamed(records_for_tests.diverged(), top5_accuracy=0.0, evaluation_steps=12),
    "the whole set a step": record(
        changes={"settings.batch_size": "full"}
        | {f"curves.{place}.step_losses": encode_step_losses([0.5]) for place in (0, 1)}
    ),
    "out of memory in its last epoch": record(
        changes={
            "status": "out_of_memory", "out_of_memory": records_for_tests.OUT_OF_MEMORY, "weights": None,
            "phases_seconds.steady": 0.75, "wall_seconds": record()["wall_seconds"] + 0.5,
        }
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALID)
def test_a_valid_record_is_not_refused(tmp_path, kind):
    write_record(VALID[kind], tmp_path / "r.json")
    assert list(contradictions(read_record(tmp_path / "r.json"))) == []


ACCURACY = "curves.1.evaluations.test.accuracy"
OUT_OF_MEMORY = {"status": "out_of_memory", "out_of_memory": records_for_tests.OUT_OF_MEMORY}
SHORTER = {"curves.1.seconds": 0.125, "result.steady_epoch_seconds": 0.125}
SHORTER |= {"result.samples_per_second": 1438 / 0.125, "result.training_seconds": 0.875}
DIVERGED = {"status": "diverged", "diverged": records_for_tests.DIVERGED, "weights": None}
EDITED = {
    "accuracy of the result": ({"result.test_accuracy": 0.9}, "result.test_accuracy is 0.9, but its curves give 0.75"),
    "accuracy everywhere": (
        {"result.test_accuracy": 0.991, ACCURACY: 0.991},
        "in epoch 2 the accuracy on the test split is not a whole number of samples",
    ),
    "time of an epoch": (SHORTER, "its phase steady is 0.250000 s, but its epochs and first step give 0.125000 s"),
    "more threads than CPUs": ({"provenance.threads": 3}, "its number of threads is 3 in its stock loop, but"),
    "programs from a cache that is off": ({"compilation_cache": {"hits": 3, "misses": 0}}, "it counts programs of a"),
    "a phase moved to another": ({"phases_seconds.steady": 0.125, "phases_seconds.other": 0.25}, "its phase steady is"),
    "first step": ({"result.first_step_seconds": 0.25, "result.training_seconds": 0.75}, "its phase compilation is"),
    "an epoch left out": ({"run.epochs": 3}, "its curves hold 2 epochs, but its status ok implies 3"),
    "warm-up called steady": ({"curves.0.part": "steady"}, "its warm_up epochs are not the first epochs of"),
    "a session hidden": ({"resumes": 1}, "its 1 sessions begin with the epochs [1], but its resumes are 1"),
    "dataset": ({"dataset.name": "mnist"}, "its dataset is mnist in one place and digits in another"),
    "a diverged run called ok": ({"curves.0.batch_loss": "NaN"}, "a loss of its curves is not finite"),
    "an ok run called diverged": ({"status": "diverged"}, "its status is diverged, but its diverged is None"),
    "weights of a run out of memory": (OUT_OF_MEMORY, "but it names trained weights"),
    "a step left out": (
        {"curves.1.step_losses": encode_step_losses([0.5] * 11)},
        "it has 11 step losses in epoch 2",
    ),
    "another loss of an epoch": ({"curves.1.batch_loss": 0.4}, "in epoch 2 its batch_loss is 0.4, but its step losses"),
    "step losses that are none": ({"curves.1.step_losses": "x"}, "it has a value that no run can have"),
    "all epochs 1.5 times as long": (
        {
            **{f"curves.{place}.seconds": 0.375 for place in (0, 1)},
            "epochs": record()["epochs"],
            "result.training_seconds": 1.25,
            "result.steady_epoch_seconds": 0.375,
            "result.samples_per_second": 1438 / 0.375,
            "phases_seconds.warm_up": 0.375,
            "phases_seconds.steady": 0.375,
            "wall_seconds": record()["wall_seconds"] + 0.25,
        },
        "epoch 1 took 0.375000 s, but its moments allow 0.250000 to 0.250000 s",
    ),
    "moments out of order": (
        {"epochs.0.moments": [11.0, 11.0, 11.5, 11.25]},
        "epoch 1 took 0.250000 s, but its moments",
    ),
    "more CPU time than two CPUs have": (
        {"epochs.1.cpu_seconds": 0.6},
        "in epoch 2 rank 0 used 0.600 s of CPU time in 0.250 s, but held 2 of the CPUs",
    ),
    "an epoch without moments": ({"epochs": record()["epochs"][:1]}, "it has a value that no run can have"),
    "a peak of a run that is not ok": (DIVERGED | {"peak": with_peak(record())["peak"]}, "diverged, but it has a peak"),
}


EDITED_PEAK = {
    "share": ({"peak.share_of_peak": 0.5}, "peak.share_of_peak is 0.5, but its curves and its peak give 0.02876"),
    "operations": ({"peak.training_flops_per_sample": 2 * 10**6}, "but its curves and its peak give"),
    "threads": ({"peak.threads": 3}, "its threads is 3 in its peak and 2 in another place"),
}


@pytest.mark.parametrize(("changes", "message"), EDITED_PEAK.values(), ids=EDITED_PEAK)
def test_a_peak_that_contradicts_the_rest_is_found(changes, message):
    edited = changed(with_peak(record()), changes)
    assert any(message in phrase for phrase in contradictions(edited)), list(contradictions(edited))


def of_two_workers():
    """A record of two workers, whose losses are .4 and .6."""
    whole = with_other_ranks(record(workers=2), 0.02, 0.01)
    of_ranks = [
        [one | {"share_losses": encode_step_losses([loss] * 12), "weights_sha256": "a" * 64} for one in whole["epochs"]]
        for loss in (0.4, 0.6)
    ]
    replay = {"epoch": 2, "losses": [*array("f", [0.4, 0.6])], "alone_losses": [0.4, 0.6]}
    return changed(whole, {"epochs": of_ranks[0], "other_ranks.0.epochs": of_ranks[1], "replays": [replay]})


EDITED_RANKS = {
    "nothing": ({}, None),
    "other weights": (
        {"other_ranks.0.epochs.1.weights_sha256": "b" * 64},
        "in epoch 2 its ranks have different weights",
    ),
    "a rank that was late": (
        {"other_ranks.0.epochs.0.moments": [11.1, 11.1, 11.25, 11.25]},
        "in epoch 1 a rank began 0.100000 s before another one was there",
    ),
    "a rank that was not done": (
        {"other_ranks.0.epochs.1.moments": [12.0, 12.0, 12.5, 12.5]},
        "in epoch 2 a rank ended 0.250000 s before another one was there",
    ),
    "on clocks of two hosts": (
        {"other_ranks.0.sessions.0.boot_id": "other", "other_ranks.0.epochs.0.moments": [1, 1, 2, 2]},
        None,
    ),
    "more CPU time on rank 1": ({"other_ranks.0.epochs.0.cpu_seconds": 0.6}, "in epoch 1 rank 1 used 0.600 s of CPU"),
    "the same samples": (
        {
            "epochs.0.share_losses": encode_step_losses([0.5] * 12),
            "other_ranks.0.epochs.0.share_losses": encode_step_losses([0.5] * 12),
        },
        "in epoch 1 the ranks 0 and 1 have the same losses: they trained the same samples",
    ),
    "losses of another batch": (
        {"other_ranks.0.epochs.0.share_losses": encode_step_losses([0.6] * 11 + [0.8])},
        "in epoch 1 the loss of step 12 is 0.5, but its ranks had 0.6 together",
    ),
    "a step less": (
        {"other_ranks.0.epochs.0.share_losses": encode_step_losses([0.6] * 11)},
        "in epoch 1 some rank has not 12 losses",
    ),
    "another loss alone": (
        {"replays.0.alone_losses": [0.4, 0.5]},
        "in epoch 2 rank 1 had the loss 0.6, and its share alone has 0.5",
    ),
    "other losses in the replay": (
        {"replays.0.losses": [0.4, 0.5], "replays.0.alone_losses": [0.4, 0.5]},
        "the first losses of epoch 2 are not those of its replay",
    ),
    "fewer samples alone": (
        {"communication.alone_samples": [64, 32]},
        "its communication was measured with 128 samples together and [64, 32] alone, but 1 steps have 128",
    ),
}


@pytest.mark.parametrize("edit", EDITED_RANKS)
def test_ranks_that_contradict_each_other_are_found(edit):
    changes, says = EDITED_RANKS[edit]
    found = list(contradictions(changed(of_two_workers(), changes)))
    assert len(found) == bool(says) and all(says in phrase for phrase in found), found


TOP5 = "curves.1.evaluations.test.top5_accuracy"
EDITED_STREAMED = {
    "top-5 accuracy everywhere": (
        {"result.test_top5_accuracy": 0.993, TOP5: 0.993},
        "in epoch 2 the top-5 accuracy on the test split is not a whole number of samples",
    ),
    "top-5 accuracy below the accuracy": (
        {"result.test_top5_accuracy": 0.7, TOP5: 0.7},
        "in epoch 2 the top-5 accuracy on the test split is below the accuracy",
    ),
    "an evaluation within an epoch left out": ({"step_evaluations": []}, "its evaluations within epochs are after"),
    "an evaluation at another step": (
        {"step_evaluations.1.step": 11},
        "its evaluations within epochs are after the steps [5, 11, 17, 22], but its settings imply [5, 10, 17, 22]",
    ),
    "an evaluation before the one before it": (
        {"step_evaluations.1.training_seconds": 0.1},
        "after step 10 it had trained for 0.100000 s, but its epochs allow 0.104167 to 0.250000 s",
    ),
    "an evaluation after its epoch": ({"step_evaluations.1.training_seconds": 0.26}, "after step 10 it had trained"),
    "share of waiting": ({"result.waiting_share": 0.01}, "result.waiting_share is 0.01, but its curves give 0.5"),
    "waiting for longer than the epoch": ({"curves.0.waiting_seconds": 0.3}, "in epoch 1 it waited 0.300000 s for"),
    "waiting left out": ({"curves.0.waiting_seconds": None}, "some of its epochs waited for batches and others have"),
}


@pytest.mark.parametrize("edit", EDITED_STREAMED)
def test_an_edit_of_a_streamed_run_is_refused(tmp_path, edit):
    changes, says = EDITED_STREAMED[edit]
    path = tmp_path / "record.json"
    path.write_text(json.dumps(changed(streamed(record(), waiting=0.5, evaluation_steps=5), changes)))
    with pytest.raises(RecordError, match=re.escape(f"{path} contradicts itself: {says}")):
        read_record(path)


@pytest.mark.parametrize("edit", EDITED)
def test_an_edit_is_refused_with_a_renewed_digest_and_without(tmp_path, edit):
    changes, says = EDITED[edit]
    path = tmp_path / "record.json"
    edited = record(changes=changes)
    path.write_text(json.dumps(edited))
    with pytest.raises(RecordError) as caught:
        read_record(path)
    assert str(caught.value).startswith(f"{path} contradicts itself: ")
    assert says in str(caught.value)
    assert str(caught.value).endswith("; delete it, and snakemake trains the run again")
    path.write_text(json.dumps(edited | {"sha256": record()["sha256"]}))
    with pytest.raises(RecordError, match="was changed after it was written: its content does not match its SHA-256"):
        read_record(path)


def test_order_of_keys_and_spaces_do_not_count_as_edits(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(json.dumps(dict(reversed(record().items())), indent=7))
    assert read_record(path) == record()
