"""Records: read as written, refused if they do not fit the schema, and written atomically."""

import copy
import json
import math
import os

import pytest
import records_for_tests
from records_for_tests import record

from trainmark.errors import RecordError
from trainmark.records.record import PHASES, SCHEMA_FILE, decode_loss, encode_loss, read_record, write_record

KINDS = {
    "ok": record(),
    "on a gpu": record(device="gpu"),
    "nan": records_for_tests.diverged(),
    "inf": records_for_tests.diverged(kind="inf"),
    "out of memory": records_for_tests.out_of_memory(),
    "resumed": record(changes={"sessions": [records_for_tests.session()] * 2, "resumes": 1}),
    "on texts": record(changes={"settings.input": None, "scored_texts": records_for_tests.SCORED_TEXTS}),
    "without a score": record(
        changes={"scored_texts": records_for_tests.SCORED_TEXTS, "scored_texts.0.probability": "NaN"}
    ),
    "without weights": record(changes={"weights": None}),
    "in an order": record(changes={"order": {"position": 3, "of": 14}}),
}


def changed(path: str, value) -> dict:
    """A valid record with one value changed. The value `...` removes the key."""
    return record(changes={path: value})


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip(tmp_path, kind):
    path = tmp_path / "deep" / "er" / "record.json"
    before = copy.deepcopy(KINDS[kind])
    write_record(KINDS[kind], path)
    assert read_record(path) == KINDS[kind] == before
    assert [entry.name for entry in path.parent.iterdir()] == ["record.json"]


def test_numbers_are_read_exactly_as_written(tmp_path):
    numbers = [0.1 + 0.2, 1e-300, 5e-324, 1.7976931348623157e308]
    write_record(record(changes={"settings.experiment.numbers": numbers}), tmp_path / "r.json")
    assert read_record(tmp_path / "r.json")["settings"]["experiment"]["numbers"] == numbers


@pytest.mark.parametrize(
    ("loss", "written"),
    [(0.5, 0.5), (0.0, 0.0), (-3.0, -3.0), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
)
def test_losses_that_json_can_not_hold(loss, written):
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
    ("order", {"position": 0, "of": 3}, "order.position"),
    ("settings.dtype", "float16", "settings.dtype"),
    ("settings.parameters", 1.5, "settings.parameters"),
    ("settings.input.scale", ..., "settings.input"),
    ("settings.experiment", [], "settings.experiment"),
    ("dataset.content_sha256", "abc", "dataset.content_sha256"),
    ("settings.input", [], "settings.input"),
    ("scored_texts", None, "scored_texts"),
    ("scored_texts", [records_for_tests.SCORED_TEXTS[0] | {"probability": 1.5}], "scored_texts.0.probability"),
    ("scored_texts", [records_for_tests.SCORED_TEXTS[0] | {"probability": "Infinity"}], "scored_texts.0.probability"),
    ("weights", "weights.npz", "weights"),
    ("weights.file", "../weights.npz", "weights.file"),
    ("weights.sha256", "abc", "weights.sha256"),
    ("status", "fine", "status"),
    ("diverged", {"kind": "nan"}, "diverged"),
    ("out_of_memory", {"phase": "warm_up"}, "out_of_memory"),
    ("out_of_memory", records_for_tests.OUT_OF_MEMORY | {"phase": "training"}, "out_of_memory.phase"),
    ("curves.1.seconds", -0.5, "curves.1.seconds"),
    ("curves.0.part", "training", "curves.0.part"),
    ("curves.0.batch_loss", "nan", "curves.0.batch_loss"),
    ("curves.0.evaluations", {}, "curves.0.evaluations"),
    ("curves.0.evaluations.test.accuracy", 1.5, "curves.0.evaluations.test.accuracy"),
    ("curves.0.evaluations.val", {"loss": 1, "accuracy": 1, "top5_accuracy": None}, "curves.0.evaluations"),
    ("curves.1.step_losses", [0.5], "curves.1.step_losses"),
    ("result.test_accuracy", 1.5, "result.test_accuracy"),
    ("result.first_epoch_seconds", 1.0, "result"),
    ("phases_seconds", {}, "phases_seconds"),
    ("phases_seconds.training", 1.0, "phases_seconds"),
    ("phases_seconds.steady", -0.5, "phases_seconds.steady"),
    ("wall_seconds", "1", "wall_seconds"),
    ("resumes", -1, "resumes"),
    ("sessions", [], "sessions"),
    ("sessions.0.held_seconds", [1.0], "sessions.0.held_seconds"),
    ("energy.source", "a guess", "energy.source"),
    ("energy.training_joules", -1, "energy.training_joules"),
    ("memory.peak_host_mib", None, "memory.peak_host_mib"),
    ("provenance.host", ..., "provenance"),
    ("provenance.device.kind", "tpu", "provenance.device.kind"),
    ("provenance.code.sha256", "abc", "provenance.code.sha256"),
]


@pytest.mark.parametrize(("path", "value", "where"), WRONG, ids=[f"{path}={value}" for path, value, _ in WRONG])
def test_a_record_that_does_not_fit_is_neither_written_nor_read(tmp_path, path, value, where):
    wrong = changed(path, value)
    file = tmp_path / "new" / "record.json"
    begins = f"{file} is not a record of this version of trainmark: {where}: "
    with pytest.raises(RecordError) as on_write:
        write_record(wrong, file)
    assert str(on_write.value).startswith(begins)
    assert not file.parent.exists(), "nothing is left behind"
    file.parent.mkdir()
    file.write_text(json.dumps(wrong))
    with pytest.raises(RecordError) as on_read:
        read_record(file)
    assert str(on_read.value).startswith(begins)
    assert "\n" not in str(on_read.value)


def test_a_refused_record_leaves_the_old_one(tmp_path):
    file = tmp_path / "record.json"
    write_record(record(), file)
    with pytest.raises(RecordError):
        write_record(changed("status", "fine"), file)
    assert read_record(file) == record()


def test_a_long_value_does_not_fill_the_screen(tmp_path):
    with pytest.raises(RecordError) as caught:
        write_record(changed("status", "x" * 5000), tmp_path / "r.json")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


NUMBERS_ANYWHERE = [
    "phases_seconds.warm_up", "wall_seconds", "sessions.0.held_seconds.0",
    "curves.0.batch_loss", "curves.0.evaluations.test.loss", "result.test_loss",
    "settings.optimizer.rho", "settings.optimizer.new", "settings.input.scale",
]  # fmt: skip


@pytest.mark.parametrize("path", NUMBERS_ANYWHERE)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_can_not_hold_is_refused_on_write(tmp_path, path, value):
    with pytest.raises(RecordError) as caught:
        write_record(changed(path, value), tmp_path / "r.json")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "not even a part"


def test_the_message_for_such_a_number(tmp_path):
    file = tmp_path / "r.json"
    message = (
        f"{file} is not a record of this version of trainmark: it holds NaN or Infinity as a number; delete it, "
        "and snakemake trains the run again"
    )
    wrong = changed("settings.optimizer.rho", math.nan)
    with pytest.raises(RecordError) as on_write:
        write_record(wrong, file)
    file.write_text(json.dumps(wrong))
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
    """Python's json reads NaN and Infinity, which are not JSON. Records never contain them."""
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
def test_a_file_that_is_not_json(tmp_path, content, message):
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


def test_a_list_is_not_a_record(tmp_path):
    (tmp_path / "r.json").write_text("[]")
    with pytest.raises(RecordError, match="top level"):
        read_record(tmp_path / "r.json")


def test_a_write_that_is_cut_off_leaves_the_old_record(tmp_path, monkeypatch):
    file = tmp_path / "record.json"
    write_record(record(), file)
    seen = []

    def stop(source, target):
        seen.append((json.loads(source.read_text()), str(target)))
        raise OSError("disk gone")

    monkeypatch.setattr(os, "replace", stop)
    with pytest.raises(OSError, match="disk gone"):
        write_record(KINDS["nan"], file)
    assert read_record(file) == record(), "the old one is untouched until the new one is whole"
    assert seen == [(KINDS["nan"], str(file))], "the new one was whole before it took the name"


def test_the_schema_refuses_unknown_keys_and_lists_what_it_requires():
    schema, good = json.loads(SCHEMA_FILE.read_text()), record()
    assert schema["additionalProperties"] is False
    assert set(schema["required"]) == set(schema["properties"]) == set(good)
    for part in ("run", "settings", "dataset", "result", "phases_seconds", "energy", "memory"):
        inner = schema["properties"][part]
        assert inner["additionalProperties"] is False
        assert set(inner["required"]) == set(inner["properties"]) == set(good[part])


def test_the_schema_knows_the_phases_of_the_clock():
    schema = json.loads(SCHEMA_FILE.read_text())
    assert (
        set(schema["properties"]["phases_seconds"]["required"]) == set(schema["$defs"]["phase"]["enum"]) == set(PHASES)
    )
