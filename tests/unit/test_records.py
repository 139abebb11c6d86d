"""The record: the same on both sides of the file, refused where it does not fit, whole or not there."""

import copy
import json
import math
import os

import pytest

from trainmark.errors import RecordError
from trainmark.records import SCHEMA_FILE, decode_loss, encode_loss, read_record, write_record

RUN = {
    "experiment": "e", "recipe": "mnist-mlp-keras", "dataset": "digits", "framework": "chainer", "device": "cpu",
    "epochs": 2, "repeat": 1, "workers": 1, "loop": "stock",
}  # fmt: skip


def curve(epoch: int, loss: float | str = 0.5) -> dict:
    return {
        "epoch": epoch,
        "seconds": 0.25,
        "batch_loss": loss,
        "evaluations": {"test": {"loss": loss, "accuracy": 0.75}},
    }


def good() -> dict:
    """A record of two epochs that is ok."""
    return {
        "schema_version": 1,
        "run": {"id": "e/mnist-mlp-keras/digits/chainer/cpu/epochs-2/repeat-1", **RUN},
        "settings": {
            "seed": 1,
            "architecture": "mlp-512-512-dropout",
            "parameters": 669706,
            "dropout": True,
            "initializer": "glorot_uniform",
            "optimizer": {"rule": "rmsprop", "learning_rate": 0.001, "rho": 0.9, "epsilon": 1e-8},
            "batch_size": 128,
            "dtype": "float32",
            "input": {"scale": 1 / 255, "subtract_mean": True, "crop": None, "mean_window": "same"},
        },
        "dataset": {"name": "digits", "content_sha256": "0" * 64, "samples": {"train": 1438, "test": 359}},
        "status": "ok",
        "diverged": None,
        "curves": [curve(1), curve(2)],
        "step_losses": [2.3, 0.1 + 0.2],
        "result": {
            "epochs_trained": 2,
            "training_seconds": 0.5,
            "first_epoch_seconds": 0.25,
            "steady_epoch_seconds": 0.25,
            "test_loss": 0.5,
            "test_accuracy": 0.75,
            "train_loss": None,
            "train_accuracy": None,
        },
        "phases_seconds": {"training": 0.5, "other": 0.5},
        "wall_seconds": 1.0,
        "provenance": {
            "host": "h",
            "cpu_model": "c",
            "cpu_cores": 2,
            "threads": 1,
            "device": {"kind": "cpu", "name": "c"},
            "versions": {"chainer": "7.8.1"},
            "python": "3.11",
            "trainmark": "0.1.0",
            "started": "2025-01-01T00:00:00+00:00",
        },
    }


def diverged() -> dict:
    record = good()
    record["status"] = "diverged"
    record["diverged"] = {"kind": "inf", "epoch": 1, "step": 2, "last_finite_loss": 2.3}
    record["curves"] = [curve(1, "Infinity")]
    record["step_losses"] = [2.3, "Infinity", "NaN"]
    record["result"] |= {"epochs_trained": 1, "steady_epoch_seconds": None, "test_loss": "NaN"}
    return record


def changed(path: str, value) -> dict:
    """A good record with one value changed; the value `...` takes the key away."""
    record = good()
    *outer, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place = record
    for part in outer:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return record


@pytest.mark.parametrize("record", [good(), diverged()], ids=["ok", "diverged"])
def test_round_trip(tmp_path, record):
    path = tmp_path / "deep" / "er" / "record.json"
    before = copy.deepcopy(record)
    write_record(record, path)
    assert read_record(path) == record == before
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]


def test_numbers_come_back_to_the_last_bit(tmp_path):
    record = good()
    record["step_losses"] = [0.1 + 0.2, 1e-300, 5e-324, 1.7976931348623157e308]
    write_record(record, tmp_path / "r.json")
    assert read_record(tmp_path / "r.json")["step_losses"] == record["step_losses"]


@pytest.mark.parametrize(
    ("loss", "written"),
    [(0.5, 0.5), (0.0, 0.0), (-3.0, -3.0), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
)
def test_losses_that_json_does_not_know(loss, written):
    assert encode_loss(loss) == written
    back = decode_loss(encode_loss(loss))
    assert back == loss or (math.isnan(back) and math.isnan(loss))
    assert json.loads(json.dumps(encode_loss(loss), allow_nan=False)) == written


def test_no_loss_stays_none():
    assert decode_loss(None) is None


WRONG = [
    ("schema_version", 2, "schema_version"),
    ("run", ..., "top level"),
    ("run.id", ..., "run"),
    ("run.device", "tpu", "run.device"),
    ("run.epochs", 0, "run.epochs"),
    ("run.colour", "red", "run"),
    ("surprise", 1, "top level"),
    ("settings.dtype", "float16", "settings.dtype"),
    ("settings.parameters", 1.5, "settings.parameters"),
    ("settings.input.scale", ..., "settings.input"),
    ("dataset.content_sha256", "abc", "dataset.content_sha256"),
    ("status", "fine", "status"),
    ("diverged", {"kind": "nan"}, "diverged"),
    ("curves", [], "curves"),
    ("curves.1.seconds", -0.5, "curves.1.seconds"),
    ("curves.0.batch_loss", "nan", "curves.0.batch_loss"),
    ("curves.0.evaluations", {}, "curves.0.evaluations"),
    ("curves.0.evaluations.test.accuracy", 1.5, "curves.0.evaluations.test.accuracy"),
    ("curves.0.evaluations.val", {"loss": 1, "accuracy": 1}, "curves.0.evaluations"),
    ("step_losses.1", None, "step_losses.1"),
    ("result.test_accuracy", None, "result.test_accuracy"),
    ("phases_seconds", {}, "phases_seconds"),
    ("wall_seconds", "1", "wall_seconds"),
    ("provenance.host", ..., "provenance"),
    ("provenance.device.kind", "tpu", "provenance.device.kind"),
]


@pytest.mark.parametrize(("path", "value", "where"), WRONG, ids=[f"{path}={value}" for path, value, _ in WRONG])
def test_a_record_that_does_not_fit_is_neither_written_nor_read(tmp_path, path, value, where):
    record = changed(path, value)
    file = tmp_path / "new" / "record.json"
    begins = f"{file} is not a record of this version of trainmark: {where}: "
    with pytest.raises(RecordError) as on_write:
        write_record(record, file)
    assert str(on_write.value).startswith(begins)
    assert not file.parent.exists(), "nothing is left behind"
    file.parent.mkdir()
    file.write_text(json.dumps(record))
    with pytest.raises(RecordError) as on_read:
        read_record(file)
    assert str(on_read.value).startswith(begins)
    assert "\n" not in str(on_read.value)


def test_a_refused_record_leaves_the_old_one(tmp_path):
    file = tmp_path / "record.json"
    write_record(good(), file)
    with pytest.raises(RecordError):
        write_record(changed("status", "fine"), file)
    assert read_record(file) == good()


def test_a_long_value_does_not_fill_the_screen(tmp_path):
    with pytest.raises(RecordError) as caught:
        write_record(changed("status", "x" * 5000), tmp_path / "r.json")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


NUMBERS_ANYWHERE = [
    "phases_seconds.training", "wall_seconds", "step_losses.0", "curves.0.evaluations.test.loss", "result.test_loss",
    "settings.optimizer.rho", "settings.optimizer.new", "settings.input.scale",
]  # fmt: skip


@pytest.mark.parametrize("path", NUMBERS_ANYWHERE)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_does_not_know_is_refused_on_write(tmp_path, path, value):
    with pytest.raises(RecordError) as caught:
        write_record(changed(path, value), tmp_path / "r.json")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "not even a part"


def test_what_is_said_of_such_a_number(tmp_path):
    file = tmp_path / "r.json"
    message = (
        f"{file} is not a record of this version of trainmark: it holds NaN or Infinity as a number; delete it, "
        "and snakemake trains the run again"
    )
    record = changed("settings.optimizer.rho", math.nan)
    with pytest.raises(RecordError) as on_write:
        write_record(record, file)
    file.write_text(json.dumps(record))
    with pytest.raises(RecordError) as on_read:
        read_record(file)
    assert str(on_write.value) == str(on_read.value) == message


def test_a_number_beyond_all_floats_in_a_file_is_refused(tmp_path):
    """1e999 is JSON, and Python reads it as infinity."""
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed("wall_seconds", 12345.5)).replace("12345.5", "1e999"))
    with pytest.raises(RecordError):
        read_record(file)


@pytest.mark.parametrize("path", ["curves.0.batch_loss", *NUMBERS_ANYWHERE])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_bare_nan_or_infinity_in_a_file_is_refused_on_read(tmp_path, path, value):
    """Python's json reads NaN and Infinity, which are no JSON; a record never has them."""
    file = tmp_path / "r.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(RecordError):
        read_record(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "{file} is not a JSON file: Expecting value: line 1 column 1 (char 0)"),
        (b'{"schema_version": 1', "{file} is not a JSON file: Expecting ',' delimiter: line 1 column 21 (char 20)"),
        (b"\xff\xfe\x00", "{file} is not a JSON file: 'utf-8' codec can't decode byte 0xff"),
    ],
    ids=["empty", "cut off", "not text"],
)  # fmt: skip
def test_a_file_that_is_no_json(tmp_path, content, message):
    file = tmp_path / "r.json"
    file.write_bytes(content)
    with pytest.raises(RecordError) as caught:
        read_record(file)
    assert str(caught.value).startswith(message.format(file=file))


def test_a_missing_record(tmp_path):
    with pytest.raises(RecordError) as caught:
        read_record(tmp_path / "r.json")
    assert str(caught.value).startswith(f"{tmp_path / 'r.json'}: there is no such record")


def test_a_folder_in_the_place_of_a_record(tmp_path):
    with pytest.raises(RecordError, match="can't be read"):
        read_record(tmp_path)


def test_a_list_is_no_record(tmp_path):
    (tmp_path / "r.json").write_text("[]")
    with pytest.raises(RecordError, match="top level"):
        read_record(tmp_path / "r.json")


def test_a_write_that_is_cut_off_leaves_the_old_record(tmp_path, monkeypatch):
    file = tmp_path / "record.json"
    write_record(good(), file)
    seen = []

    def stop(source, target):
        seen.append((json.loads(source.read_text()), str(target)))
        raise OSError("disk gone")

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(OSError, match="disk gone"):
        write_record(diverged(), file)
    assert read_record(file) == good(), "the old one is untouched until the new one is whole"
    assert seen == [(diverged(), str(file))], "the new one was whole before it took the name"


def test_the_schema_refuses_unknown_keys_and_lists_what_it_requires():
    schema = json.loads(SCHEMA_FILE.read_text())
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"]) == set(good())
    for part in ("run", "settings", "dataset", "result"):
        inner = schema["properties"][part]
        assert inner["additionalProperties"] is False
        assert set(inner["required"]) == set(inner["properties"]) == set(good()[part])
