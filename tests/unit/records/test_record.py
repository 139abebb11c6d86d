"""Records: read as written, refused if they do not fit the schema, and written atomically."""

import copy
import json
import math

import pytest
import records_for_tests
from records_for_tests import record

from trainmark.errors import RecordError
from trainmark.records.record import PHASES, SCHEMA_FILE, decode_loss, encode_loss, read_record, write_record

KINDS = {
    "ok": record(),
    "nan": records_for_tests.diverged(),
    "resumed": record(changes={"sessions": [records_for_tests.session()] * 2, "resumes": 1}),
    "without a score": record(
        changes={"scored_texts": records_for_tests.SCORED_TEXTS, "scored_texts.0.probability": "NaN"}
    ),
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


@pytest.mark.parametrize(
    ("loss", "written"),
    [(0.5, 0.5), (math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")],
)
def test_losses_that_json_can_not_hold(loss, written):
    assert encode_loss(loss) == written
    back = decode_loss(encode_loss(loss))
    assert back == loss or (math.isnan(back) and math.isnan(loss))
    assert decode_loss(None) is None


def message_of(function, *arguments) -> str:
    """The one line of the RecordError that a call ends in."""
    with pytest.raises(RecordError) as caught:
        function(*arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


WRONG = [
    ("schema_version", 2, "schema_version"),
    ("run.epochs", 0, "run.epochs"),
    ("order", {"position": 0, "of": 3}, "order.position"),
    ("network.dtype", "float16", "network.dtype"),
    ("settings.batch_size", ..., "settings"),
    ("dataset.content_sha256", "abc", "dataset.content_sha256"),
    ("scored_texts", [records_for_tests.SCORED_TEXTS[0] | {"probability": 1.5}], "scored_texts[0].probability"),
    ("weights.file", "../weights.npz", "weights.file"),
    ("out_of_memory", records_for_tests.OUT_OF_MEMORY | {"phase": "training"}, "out_of_memory.phase"),
    ("curves.1.seconds", -0.5, "curves[1].seconds"),
    ("curves.0.evaluations.test.accuracy", 1.5, "curves[0].evaluations.test.accuracy"),
    ("curves.0.evaluations.val", {"loss": 1, "accuracy": 1, "top5_accuracy": None}, "curves[0].evaluations"),
    ("sessions.0.held_seconds", [1.0], "sessions[0].held_seconds"),
    ("provenance.host", ..., "provenance"),
]


@pytest.mark.parametrize(("path", "value", "where"), WRONG, ids=[f"{path}={value}" for path, value, _ in WRONG])
def test_a_record_that_does_not_fit_is_neither_written_nor_read(tmp_path, path, value, where):
    wrong = changed(path, value)
    file = tmp_path / "new" / "record.json"
    begins = f"{file} is not a record of this version of trainmark: {where} must "
    assert message_of(write_record, wrong, file).startswith(begins)
    assert not file.parent.exists(), "nothing is left behind"
    file.parent.mkdir()
    file.write_text(json.dumps(wrong))
    assert message_of(read_record, file).startswith(begins)


def test_a_number_that_json_can_not_hold_is_refused(tmp_path):
    """Python's json reads NaN and Infinity, which are not JSON."""
    file = tmp_path / "r.json"
    wrong = changed("curves.0.batch_loss", math.nan)
    on_write = message_of(write_record, wrong, file)
    assert not list(tmp_path.iterdir()), "not even a part"
    file.write_text(json.dumps(wrong))
    assert message_of(read_record, file) == on_write
    file.write_text(json.dumps(changed("wall_seconds", 12345.5)).replace("12345.5", "1e999"))
    message_of(read_record, file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"schema_version": 1', "{file} is not a JSON file: Expecting ',' delimiter: line 1 column 21 (char 20)"),
        (b"\xff\xfe\x00", "{file} is not a JSON file: 'utf-8' codec can't decode byte 0xff"),
        (b"[]", "{file} is not a record of this version of trainmark: top level must "),
        (None, "{file}: there is no such record"),
        ("folder", "{file}: can't be read (Is a directory)"),
    ],
    ids=["cut off", "not text", "a list", "missing", "a folder"],
)  # fmt: skip
def test_a_file_that_is_no_record(tmp_path, content, message):
    file = tmp_path / "r.json"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)
    assert message_of(read_record, file).startswith(message.format(file=file))


def test_the_schema_refuses_unknown_keys_and_lists_what_it_requires():
    schema, good = json.loads(SCHEMA_FILE.read_text()), record()
    assert schema["additionalProperties"] is False
    assert (
        set(schema["required"]) == set(schema["properties"]) - {"other_ranks", "communication", "replays"} == set(good)
    )
    for part in ("run", "network", "dataset", "result", "phases_seconds", "energy", "memory"):
        inner = schema["$defs"].get(part, schema["properties"][part])
        assert inner["additionalProperties"] is False
        assert set(inner["required"]) == set(inner["properties"]) == set(good[part])


def test_the_schema_knows_the_phases_of_the_clock():
    schema = json.loads(SCHEMA_FILE.read_text())
    required = schema["$defs"]["phases_seconds"]["required"]
    assert set(required) == set(schema["$defs"]["phase"]["enum"]) == set(PHASES)
