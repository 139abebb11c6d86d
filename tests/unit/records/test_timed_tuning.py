"""A timed tuning is read as it was written; a run takes its number of threads only on such a machine."""

import json

import pytest
from records_for_tests import timed_tuning

from trainmark.errors import RecordError
from trainmark.records.tuning import chosen_threads, read_tuning, write_tuning


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "tuned.json"
    write_tuning(timed_tuning(threads=1), path)
    return path


@pytest.mark.parametrize(
    ("cpu_model", "cpus", "settings", "threads"),
    [
        ("a CPU", [0, 1], {}, 1),
        ("another CPU", [0, 1], {}, 2),
        ("a CPU", [0, 1, 2], {}, 3),
        ("a CPU", [0, 1], {"DNNL_MAX_CPU_ISA": "SSE41"}, 2),
    ],
)
def test_a_choice_holds_for_such_a_machine(file, cpu_model, cpus, settings, threads):
    assert chosen_threads(file, cpu_model, cpus, settings) == threads


def test_without_a_timing_each_cpu_has_a_thread():
    assert chosen_threads(None, "a CPU", [0, 1], {}) == 2


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
        chosen_threads(file, "a CPU", [0, 1], {})
