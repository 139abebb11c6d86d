"""Variants of an experiment on a validation split, from the config to the report."""

import json

import pytest
from harness import finish, record_file, run_script

from trainmark.plan.figures import known_figures
from trainmark.records.record import read_record
from trainmark.tables.numbers import read_numbers

pytestmark = pytest.mark.slow

SPLIT = {"title": "Held out", "format": "validation_split", "of": "digits", "test_share": 0.1, "seed": 1}
VARIANTS = {"masks": {}, "half": {"dropout": 0.5}}


def config(variants):
    keys = {"recipes": ["mnist-mlp-keras"], "datasets": ["held-out"], "frameworks": ["chainer"], "devices": ["cpu"]}
    experiment = {**keys, "epochs": [2], "repeats": 2, "variants": variants}
    grid = {**keys, "epochs": [1], "repeats": 1, "grid": {"learning_rate": [0.001, 0.01], "batch_size": [64, 128]}}
    return {"datasets": {"held-out": SPLIT}, "experiments": {"dropout": experiment, "rates": grid}}


def run(folder, variants):
    (folder / "experiment.yaml").write_text(json.dumps(config(variants)))  # in this order
    finish(folder, "--cores", "2", "--configfile", "experiment.yaml")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    run(folder, VARIANTS)
    return folder


def record_of(folder, variant, repeat=1):
    group = f"dropout.{variant}/mnist-mlp-keras/held-out/chainer-cpu/epochs-2"
    return read_record(record_file(folder, f"{group}/repeat-{repeat}"))


def comparisons(folder, experiment):
    numbers = read_numbers(folder / "results" / "tables" / "numbers.csv")
    return numbers[(numbers["experiment"] == experiment) & (numbers["statistic"] == "ratio")]


def test_each_variant_trains_with_its_own_settings_from_the_same_weights(folder):
    masks, half = record_of(folder, "masks"), record_of(folder, "half")
    assert [one["settings"]["dropout"] for one in (masks, half)] == [None, 0.5]
    assert masks["initial_evaluation"] == half["initial_evaluation"]
    assert masks["curves"] != half["curves"]
    assert masks["dataset"]["samples"]["train"] + masks["dataset"]["samples"]["test"] == 1438


def test_the_variants_are_compared_and_drawn_and_the_folder_verifies(folder):
    results = folder / "results"
    table = comparisons(folder, "dropout")
    assert set(table["reason"]) == {"masks and half differ in dropout"}
    assert set(table["verdict"][table["metric"] == "test_loss"]) == {"too few pairs (2, needs 6)"}
    assert set(table["runs"] + table["left_out"]) == {2}
    figures = results / "figures" / "dropout" / "mnist-mlp-keras" / "held-out"
    assert {file.stem for file in figures.glob("*.svg")} == set(known_figures())
    assert "chainer with half" in (figures / "loss.svg").read_text()
    assert "masks and half differ in dropout." in (figures / "loss.caption.txt").read_text()
    assert "masks and half differ in dropout" in (results / "report" / "index.html").read_text()
    process = run_script("verify", results)
    assert process.returncode == 0, process.stdout


def test_the_cells_of_a_grid_are_compared_factor_by_factor(folder):
    table = comparisons(folder, "rates")
    first = table["compared_with"].str.replace("chainer with | on cpu", "", regex=True)
    assert {*(first + " - " + table["variant"])} == {
        "learning_rate-0.001 - learning_rate-0.01", "batch_size-64 - batch_size-128",
        *(f"learning_rate-0.001.{size} - learning_rate-0.01.{size}" for size in ("batch_size-64", "batch_size-128")),
        *(f"{rate}.batch_size-64 - {rate}.batch_size-128" for rate in ("learning_rate-0.001", "learning_rate-0.01")),
    }  # fmt: skip


def test_another_order_and_another_variant_train_no_run_again(folder):
    before = {variant: record_of(folder, variant)["sha256"] for variant in VARIANTS}
    run(folder, {"none": {"dropout": 0}, "half": {"dropout": 0.5}, "masks": {}})
    assert {variant: record_of(folder, variant)["sha256"] for variant in VARIANTS} == before
    assert not record_of(folder, "none")["network"]["dropout"]
    table = comparisons(folder, "dropout")
    assert set(table["compared_with"]) == {"chainer with none on cpu"} and set(table["variant"]) == {"masks", "half"}
