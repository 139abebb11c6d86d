"""Runs that are killed end as if nobody had killed them: in every phase, within epochs, and while they load images."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import psutil
import pytest
from harness import FRAMEWORKS, calling, on_path, record_file, snakemake, write_config
from killing_python import plan_of

from trainmark.plan.run import Run
from trainmark.records.record import read_record
from trainmark.tables.numbers import read_numbers
from trainmark.trainer import Trainer

SIGNALS = ("SIGKILL", "SIGTERM")
OF_PROCESSES = ("psm_", "sem.mp-")
"""How the names of shared memory begin that Python's multiprocessing makes."""
PHASES = ("training", "evaluation", "checkpoint")

# The first test waits for the workflow: minutes, and more on a busy machine.
pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]


class Case(NamedTuple):
    """Runs of so many epochs, and their kills by framework, in their order (see killing_python.py).

    dataset, datasets, settings: what is trained on, its entry in the config, and further keys of the experiment.
    """

    epochs: int
    kills: Mapping[str, list[str]]
    dataset: str = "digits"
    datasets: Mapping = MappingProxyType({})
    settings: Mapping = MappingProxyType({})
    loop: str = "stock"

    def run(self, framework, experiment="killed"):
        """The id of a run; nobody kills those of the experiment "undisturbed"."""
        return Run(experiment, "mnist-mlp-keras", self.dataset, Trainer(framework, "cpu", self.loop), self.epochs, 1).id

    def config(self):
        """Each run twice: one is killed."""
        experiment = {
            "recipes": ["mnist-mlp-keras"],  # with dropout: its random state has to come back too
            "datasets": [self.dataset],
            "frameworks": list(self.kills),
            "devices": ["cpu"],
            "loops": [self.loop],
            "epochs": [self.epochs],
            "repeats": 1,
            "time_tuning": False,  # which would take a minute for each framework
            **self.settings,
        }
        return {"experiments": {"killed": experiment, "undisturbed": experiment}, "datasets": dict(self.datasets)}


EVERY_SIGNAL_IN_EVERY_PHASE = Case(
    60,
    {
        framework: [f"{SIGNALS[(i + j) % 2]} {phase}" for j, phase in enumerate(PHASES)] + ["SIGTERM start"] * (i < 2)
        for i, framework in enumerate(FRAMEWORKS)
    },
    settings={"optimizer_restarts": 9},
)
"""In every phase one framework is killed by one signal, and the next framework by the other."""


WITHIN_STREAMED_EPOCHS = Case(
    4,
    {
        "chainer": [
            "SIGKILL training", "SIGTERM training", "SIGKILL loading", "SIGTERM loading", "SIGKILL checkpoint 1",
        ],
        "flax": ["SIGTERM training", "SIGKILL training", "SIGTERM loading", "SIGKILL loading", "SIGKILL start"],
        FRAMEWORKS[-1]: ["SIGKILL training", "SIGTERM training", "SIGKILL checkpoint 1"],
    },
    "cropped",
    {
        "cropped": {
            "title": "Images to crop", "format": "synthetic", "image_shape": [1, 36, 36], "classes": 10, "seed": 1,
            "samples": {"train": 410, "test": 50},
        },
    },
    {
        "batch_size": 20,
        "checkpoint_steps": 2,
        "input": {"crop": [28, 28], "random_crop": True, "random_flip": True},
        "loader": {"iterator": "process", "jobs": 2},
    },
)  # fmt: skip
"""21 steps an epoch, with a checkpoint after every second one, on images that two processes crop and flip."""


TUNED = Case(
    40,
    {framework: [f"{SIGNALS[i % 2]} training", "SIGKILL checkpoint"] for i, framework in enumerate(FRAMEWORKS)},
    loop="tuned",
)


@pytest.fixture(
    scope="module",
    params=[EVERY_SIGNAL_IN_EVERY_PHASE, WITHIN_STREAMED_EPOCHS, TUNED],
    ids=["whole", "within", "tuned"],
)
def case(request):
    return request.param


@pytest.fixture(scope="module")
def killed(case, tmp_path_factory):
    """(folder of the workflow whose runs were killed, what each call of snakemake printed)."""
    folder = tmp_path_factory.mktemp("killed")
    kills = folder / "kills"
    kills.mkdir()
    path = on_path(folder, calling(Path(__file__).with_name("killing_python.py")))
    os.environ["KILLS"] = str(kills)
    for framework, planned in case.kills.items():
        plan_of(case.run(framework)).write_text("\n".join(planned))
    name = write_config(folder, case.config())
    calls = []
    for _ in range(1 + sum(map(len, case.kills.values()))):
        process = snakemake(
            folder, "--until", "collect_records", "--cores", "2", "--configfile", name,
            PATH=path, TRAINMARK_CHECKPOINT_SECONDS="0",
        )  # fmt: skip
        calls.append(process.printed)
        if process.returncode == 0:
            break
    return folder, calls


def curves(record_file):
    """What a run computed, to the last bit, without its times."""
    record = read_record(record_file)
    times = ("seconds", "waiting_seconds", "part")
    entries = [{key: value for key, value in entry.items() if key not in times} for entry in record["curves"]]
    return entries, record["status"]


def test_every_kill_happened_where_it_was_meant_to(case, killed):
    folder, calls = killed
    done = (folder / "kills" / "done").read_text().splitlines()
    planned = [f"{kill} {case.run(framework)}" for framework, kills in case.kills.items() for kill in kills]
    assert sorted(done) == sorted(planned)
    assert len(calls) == max(map(len, case.kills.values())) + 1


def test_a_killed_run_ends_as_its_twin_bit_for_bit(case, killed):
    for framework in case.kills:
        files = (record_file(killed[0], case.run(framework, experiment)) for experiment in ("killed", "undisturbed"))
        assert curves(next(files)) == curves(next(files))


def test_the_record_tells_of_the_resumes_and_counts_productive_time_alone(case, killed):
    for framework, kills in case.kills.items():
        record = read_record(record_file(killed[0], case.run(framework)))
        assert 1 <= record["resumes"] <= len(kills)
        assert len(record["sessions"]) == record["resumes"] + 1
        assert all(session["restart_seconds"] > 0 for session in record["sessions"][1:])
        assert sum(record["phases_seconds"].values()) == pytest.approx(record["wall_seconds"], rel=1e-9)
        assert [entry["epoch"] for entry in record["curves"]] == list(range(1, case.epochs + 1))
        trained_seconds = sum(record["phases_seconds"][phase] for phase in ("compilation", "warm_up", "steady"))
        assert trained_seconds == pytest.approx(record["result"]["training_seconds"])


def test_no_run_is_lost_and_no_table_wrong(case, killed):
    numbers = read_numbers(killed[0] / "results" / "tables" / "numbers.csv")
    medians = numbers[(numbers["statistic"] == "median") & numbers["metric"].str.contains("loss|accuracy")]
    columns = ["framework", "metric", "value", "low", "high", "runs", "verdict"]
    of_killed, of_twins = (
        medians.loc[medians["experiment"] == experiment, columns].to_csv(index=False)
        for experiment in ("killed", "undisturbed")
    )
    assert of_killed == of_twins
    assert medians["framework"].nunique() == len(case.kills)


def test_nothing_is_left_behind(killed):
    folder = killed[0]
    assert not list(folder.rglob("*.checkpoint"))
    assert not list(folder.rglob("*.part"))


def test_no_process_and_no_shared_memory_is_left_behind(killed):
    folder = str(killed[0])
    assert shared_memory_for_a_minute() == set()
    assert [process.pid for process in psutil.process_iter() if works_in(process, folder)] == []


def shared_memory_for_a_minute():
    """The names of shared memory and semaphores that stay: those of a test that runs beside this one go."""
    left, end = {name for name in os.listdir("/dev/shm") if name.startswith(OF_PROCESSES)}, time.monotonic() + 60
    while left and time.monotonic() < end:
        time.sleep(0.5)
        left &= set(os.listdir("/dev/shm"))
    return left


def works_in(process, folder):
    try:
        return process.cwd().startswith(folder)
    except psutil.Error:
        return False


def test_a_person_reads_what_happened(case, killed):
    _, calls = killed
    assert "stopped by SIGTERM; the next snakemake goes on after the last checkpoint" in "".join(calls)
    assert "; resumed " in "".join(calls[1:])
    assert "Traceback" not in "".join(calls)
