"""No two timed runs share what they are timed on, whatever the command line says: read from the recorded intervals."""

import itertools
import shutil
from collections import Counter

import pytest
from harness import copy_with_pretended_gpus, experiment_of, on_pretended_gpus, write_config

from trainmark.machine.cpus import allowed_cores
from trainmark.records.record import read_record

pytestmark = pytest.mark.faults  # whole workflows: half a minute that make test has not

GPUS = ("GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-bbbbbbbb-0000-0000-0000-000000000002")


def sessions_of(folder):
    """What every run held, and since when until when: (start, end, CPUs, GPU), from the records."""
    records = [read_record(path) for path in sorted((folder / "results" / "runs").rglob("record.json"))]
    sessions = [session for record in records for session in record["sessions"]]
    assert len({session["boot_id"] for session in sessions}) == 1, "one clock"
    return [(*session["held_seconds"], set(session["cpus"]), session["gpu"]) for session in sessions]


def overlapping(sessions):
    """Pairs of sessions at the same time."""
    pairs = itertools.combinations(sorted(sessions, key=lambda session: session[:2]), 2)
    return [(first, second) for first, second in pairs if second[0] < first[1]]


def test_eight_cores_asked_for_give_no_two_runs_the_same_cpu(tiny):
    """The workflow of this fixture was called with --cores 8: four runs of two threads at once."""
    sessions = sessions_of(tiny.folder)
    assert len(sessions) >= 12
    shared = [pair for pair in overlapping(sessions) if pair[0][2] & pair[1][2]]
    assert shared == []
    if len(allowed_cores()) == 2:
        assert overlapping(sessions) == [], "each run holds both cores"


def test_runs_came_while_others_held_the_cpus(tiny):
    """Else the test above would show nothing: some run waited, in a phase of its own."""
    waits = [read_record(path)["phases_seconds"]["device_wait"] for path in tiny.results.rglob("record.json")]
    if len(allowed_cores()) < 8:
        assert max(waits) > 0.5


@pytest.fixture(scope="module")
def two_gpus(tmp_path_factory):
    """A finished workflow of six GPU runs on a host with two GPUs that nvidia-smi only says it has."""
    folder = copy_with_pretended_gpus(tmp_path_factory.mktemp("gpus"), GPUS)
    config = {"experiments": {"gpus": experiment_of(frameworks=["pretended"], devices=["gpu"], epochs=[4], repeats=6)}}
    write_config(folder, config)
    return folder


def train_on(folder, resource, visible):
    """The runs of the workflow, made anew. visible: CUDA_VISIBLE_DEVICES, or None for none."""
    shutil.rmtree(folder / "results" / "runs", ignore_errors=True)
    only = ("--config", "only=gpus")
    process = on_pretended_gpus(folder, *only, "--cores", "24", "--resources", resource, visible=visible)
    assert process.returncode == 0, process.printed[-5000:]
    return sessions_of(folder)


def test_two_gpus_are_both_used_and_never_shared(two_gpus):
    """Six runs, as many as a wrong --resources lets start."""
    sessions = train_on(two_gpus, "gpu=6", None)
    assert len(sessions) == 6
    used = Counter(gpu for *_, gpu in sessions)
    assert set(used) == set(GPUS)
    for first, second in overlapping(sessions):
        assert first[3] != second[3]
        assert not first[2] & second[2], "nor a CPU"
    if len(allowed_cores()) > 1:
        assert overlapping(sessions), "two at once"
    for path in (two_gpus / "results" / "runs").rglob("record.json"):
        record = read_record(path)
        assert record["provenance"]["device"]["name"] == record["sessions"][0]["gpu"], "the framework saw its own GPU"


def test_a_schedulers_choice_of_a_gpu_is_kept(two_gpus):
    sessions = train_on(two_gpus, "gpu=2", "1")
    assert {gpu for *_, gpu in sessions} == {GPUS[1]}
    assert overlapping(sessions) == []
