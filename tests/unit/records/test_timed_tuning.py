"""A timed tuning is read as it was written; a run takes its number of threads only on such a machine."""

import json

import pytest
from records_for_tests import timed_tuning

from trainmark.errors import RecordError
from trainmark.records.tuning import chosen_threads, read_tuning, taken_over, write_tuning


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tuned.json"
    write_tuning(timed_tuning(threads=1), path)
    return path


@pytest.mark.parametrize(
    ("cpu_model", "cpus", "threads"), [("a CPU", [0, 1], 1), ("another CPU", [0, 1], 2), ("a CPU", [0, 1, 2], 3)]
)
def test_a_choice_holds_for_such_a_machine(file, cpu_model, cpus, threads):
    assert chosen_threads(file, cpu_model, cpus) == threads


@pytest.mark.parametrize(
    ("changes", "is_taken"),
    [
        ({}, True),
        ({"left_out": {"seconds": 30.0, "runs_seconds": 10.0}, "steps": []}, False),
        ({"machine": timed_tuning()["machine"] | {"packages_sha256": "f" * 64}}, False),
    ],
)
def test_a_timing_of_the_same_training_on_this_machine_is_taken_over(tmp_path, changes, is_taken):
    (tmp_path / "damaged.json").write_text("{")
    tuning = timed_tuning() | changes
    write_tuning(tuning, tmp_path / "tuned.json")
    same = {key: timed_tuning()[key] for key in ("inputs", "machine")}
    assert taken_over(sorted(tmp_path.glob("*.json")), same) == (tuning if is_taken else None)


def test_without_a_timing_each_cpu_has_a_thread():
    assert chosen_threads(None, "a CPU", [0, 1]) == 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"threads": 2}, "tuned.json was changed after it was written"),
        ({"threads": 0}, "a timed tuning of this version of trainmark: threads must be bigger than or equal to 1"),
    ],
)
def test_an_edited_file_is_refused(file, changes, says):
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(RecordError, match=says):
        read_tuning(file)
    with pytest.raises(RecordError, match="delete it, and snakemake times the loop again"):
        chosen_threads(file, "a CPU", [0, 1])
