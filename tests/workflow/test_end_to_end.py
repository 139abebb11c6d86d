"""From a config to the report: every run leaves a record, and every figure that is shown comes from one."""

import json
import re
from itertools import chain

import numpy as np
import pytest
from harness import FRAMEWORKS, SECRET, TINY, finish, record_file
from report_figures import AGREEMENT, Figures, check_figures

from trainmark.parity.certificate import read_certificate
from trainmark.plan.figures import known_figures
from trainmark.records.record import read_record
from trainmark.records.step_losses import step_losses

OK, CENSORED = len(FRAMEWORKS) * 2 * 2, 4
RUNS = OK + CENSORED


@pytest.fixture(scope="module")
def records(tiny):
    """The records by run number, as the report counts them, each read from its file."""
    ids = json.loads((tiny.results / "plan.json").read_text())["order"]
    return {str(i): read_record(record_file(tiny.folder, run_id)) for i, run_id in enumerate(ids, start=1)}


@pytest.fixture(scope="module")
def certificates(tiny):
    """The certificates by their group."""
    folder = tiny.results / "certificates"
    return {str(path.parent.relative_to(folder)): read_certificate(path) for path in sorted(folder.rglob("*.json"))}


@pytest.fixture(scope="module")
def page(tiny):
    return (tiny.results / "report" / "index.html").read_text()


def test_every_run_left_a_record(records):
    assert len(records) == RUNS
    assert {record["run"]["framework"] for record in records.values()} == set(FRAMEWORKS)
    for record in records.values():
        device = record["provenance"]["device"]
        assert device is None if record["status"] == "out_of_memory" else device["kind"] == "cpu"
        if device:
            assert record["provenance"]["variables"]["NVIDIA_TF32_OVERRIDE"] == "0", "which the adapter set"
        assert sum(record["phases_seconds"].values()) == pytest.approx(record["wall_seconds"], rel=1e-9)
        assert min(record["phases_seconds"].values()) >= 0


def test_frameworks_trained_the_same(records):
    """Equal initial weights and batches: the first step's loss is the same to rounding, the last one nearly."""
    for repeat in (1, 2):
        group = [r for r in records.values() if r["run"]["repeat"] == repeat and r["run"]["epochs"] == 3]
        assert len(group) == len(FRAMEWORKS)
        for record in group[1:]:
            first, losses = (list(chain(*map(step_losses, one["curves"]))) for one in (group[0], record))
            assert losses == pytest.approx(first, rel=1e-4)
            assert losses[0] == pytest.approx(first[0], rel=1e-6)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_two_runs_of_one_setting_are_equal_to_the_last_bit(records, framework):
    """A run of one epoch computes what the first of three does; with dropout: tests/faults/test_kills.py."""
    mine = [record for record in records.values() if record["run"]["framework"] == framework]
    for repeat in (1, 2):
        short, long = (
            next(r for r in mine if (r["run"]["experiment"], r["run"]["repeat"], r["run"]["epochs"]) == found)
            for found in (("tiny", repeat, 1), ("tiny", repeat, 3))
        )
        first = [{name: value for name, value in r["curves"][0].items() if name != "seconds"} for r in (short, long)]
        assert first[0] == first[1]


@pytest.mark.parametrize("kind", ["nan", "inf"])
def test_a_diverging_run_is_a_result(records, kind):
    """NaN and infinity are told apart, with the step."""
    diverging = [record for record in records.values() if record["run"]["experiment"] == f"diverging-{kind}"]
    assert [record["status"] for record in diverging] == ["diverged"] * {"nan": 2, "inf": 1}[kind]
    for record in diverging:
        assert record["diverged"] == {"kind": kind, "epoch": 1, "step": 1, "last_finite_loss": None}
        (entry,) = record["curves"]
        np.testing.assert_equal(step_losses(entry)[0], float(kind))


def test_a_run_that_exceeds_its_memory_limit_is_a_result(records):
    (record,) = (record for record in records.values() if record["run"]["experiment"] == "out-of-memory")
    assert record["status"] == "out_of_memory"
    where = record["out_of_memory"]
    assert where["resident_mib"] > record["settings"]["memory_limit_mib"] == 40
    assert where["message"] == f"{where['resident_mib']:.1f} MiB exceed the limit of 40 MiB"
    assert (where["phase"], where["epoch"], record["curves"]) == ("import", None, [])


def test_every_pair_of_trainers_is_certified(tiny, certificates):
    """The network itself and ten steps are the same in all frameworks but for rounding, whatever the runs came to."""
    assert list(certificates) == [f"{name}/mnist-mlp-flux/digits" for name in ("diverging-nan", "tiny")]
    classes = {name: [pair["parity"] for pair in found["pairs"]] for name, found in certificates.items()}
    assert [len(found) for found in classes.values()] == [1, len(FRAMEWORKS) * (len(FRAMEWORKS) - 1) // 2]
    assert {parity for found in classes.values() for parity in found} <= {"bitwise", "rounding"}
    text = (tiny.results / "tables" / "summary.txt").read_text()
    assert text.count("Parity check (float64), per pair of trainers:") == len(certificates)
    assert not list((tiny.results / "traces").rglob("*.npz")), "compared, they are gone"


def test_every_figure_of_the_report_comes_from_records(page, records, certificates):
    shown = check_figures(page, records, certificates)
    # 6 settings that are ok x (5 metrics x (median, min, max) + 13 phases), all runs x 4, at the least
    assert len(shown) >= 6 * (5 * 3 + 13) + RUNS * 4
    # 3 pairs of frameworks x 2 epoch settings x 2 times, of 2 repeats: a ratio, and no verdict
    compared = [cell for cell in shown if cell["data-statistic"] == "verdict"]
    # beside another worker of the suite, which shares its CPUs, runs are disturbed
    words = ("not measured", "too few pairs (", "withheld: ", "no pair", "refused: ")
    assert len(compared) >= 3 * 2 * 2
    assert all(cell["data-value"].startswith(words) for cell in compared)
    assert {cell["data-statistic"] for cell in shown if cell["data-field"] == "step_losses"} == AGREEMENT
    assert "cost per epoch, CHF" in page, "as the config has prices; report_figures.py computes each anew"


def test_every_link_of_the_report_leads_somewhere_and_every_figure_is_drawn(page, tiny):
    figures = Figures(page)
    for link in figures.links:
        target = link[1:] in figures.ids if link.startswith("#") else (tiny.results / "report" / link).exists()
        assert target, link
    for name in TINY["experiments"]:
        folder = tiny.results / "figures" / name / "mnist-mlp-flux" / "digits"
        names = {f"{figure}.{kind}" for figure in known_figures() for kind in ("pdf", "png", "svg", "caption.txt")}
        assert names <= {file.name for file in folder.iterdir()}


def test_person_sees_each_run_and_the_results(tiny):
    printed = tiny.process.printed
    assert f"{RUNS} of {RUNS} runs to train" in printed
    for i in range(1, RUNS + 1):
        assert len(re.findall(rf"^run {i} of {RUNS}: .*, \d epochs?, repeat \d .*: ", printed, re.M)) == 1
    assert len(re.findall(r": test accuracy [\d.]+, test loss [\d.]+, [\d.]+ s of training", printed)) == OK
    assert f"({RUNS} of {RUNS} done)" in printed
    assert len(re.findall(r"^parity check of .*: ", printed, re.M)) == 2
    assert "rule train" not in printed
    assert "diverged: loss is nan at step 1" in printed
    assert "diverged: loss is inf at step 1" in printed
    assert "out of memory in import: " in printed
    assert (tiny.results / "tables" / "summary.txt").read_text().strip() in printed
    assert str(tiny.results / "report" / "index.html") in printed
    assert "Traceback" not in printed
    assert "\r" not in printed  # a progress bar falls silent where nobody watches


def test_a_gpu_build_without_a_driver_logs_no_traceback(tiny):
    """A CPU run is fine there, and its log says nothing else."""
    logs = {path: path.read_text() for path in (tiny.results / "logs").rglob("*.log")}
    asked = [path for path, text in logs.items() if "the CUDA plug-in was asked" in text]
    assert {path.relative_to(tiny.results / "logs").parts[0] for path in asked} == {
        "train", "trace_training", "evaluate_weights",
    }  # fmt: skip
    assert [path for path, text in logs.items() if "Traceback" in text or "cuInit" in text] == []


def test_no_secret_is_written_or_printed(tiny):
    """The mirror's key stays in the config file that the user wrote."""
    assert SECRET not in tiny.process.printed
    holding = [path for path in tiny.folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert [path.name for path in holding] == ["experiment.yaml"]


def test_second_call_finds_nothing_to_do(tiny):
    printed = finish(tiny.folder, "--cores", "2", "--configfile", "experiment.yaml")
    assert "Nothing to be done" in printed


def test_snakemakes_own_report_works(tiny):
    finish(tiny.folder, "--configfile", "experiment.yaml", "--report", "own.html")
    text = (tiny.folder / "own.html").read_text()
    assert "training_time" in text
    assert "Datasets" in text
