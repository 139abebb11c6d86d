"""The compiled check of a schema accepts nothing that jsonschema refuses."""

import copy
import json
import random
from contextlib import contextmanager

import pytest
import records_for_tests
from fastjsonschema.draft07 import CodeGeneratorDraft07

from trainmark.files import json_schema
from trainmark.files.seal import sealed
from trainmark.parity import certificate
from trainmark.records import evaluation, record
from trainmark.trainer import Trainer

GROUP = ("e", "mnist-mlp-flux", "digits")
TRAINERS = [Trainer("chainer", "cpu"), Trainer("keras-jax", "cpu", "tuned")]
RECORD = records_for_tests.record(epochs=1, changes={"scored_texts": records_for_tests.SCORED_TEXTS[:1]})
DOCUMENTS = {
    "record": (record.SCHEMA_FILE, RECORD),
    "diverged": (record.SCHEMA_FILE, records_for_tests.diverged() | records_for_tests.disturbed(foreign_seconds=1.0)),
    "out of memory": (record.SCHEMA_FILE, records_for_tests.out_of_memory()),
    "certificate": (certificate.SCHEMA_FILE, records_for_tests.certificate_of(GROUP, TRAINERS, {})),
    "evaluation": (
        evaluation.SCHEMA_FILE,
        sealed({**dict(zip(("experiment", "recipe", "dataset"), GROUP, strict=True)), "trainer": "chainer-cpu"}),
    ),
}
VALUES = (
    None, True, False, 0, 1, -1, 0.5, 1.0, 2.5, 10**400, "", "x", "NaN", "NaN\n", "Infinity", "-Infinity", "f" * 64,
    "cpu", "chainer-gpu", [], [0], [0, 1], [0, "x"], [0, 1, 2], {}, {"x": 1}, {"train": 1}, ...,
)  # fmt: skip
ANNOTATIONS = {"$schema", "$defs", "title", "description"}


def places(part):
    """Every dict or list of a document with each of its keys or indices; of lists only the first item."""
    if isinstance(part, dict):
        for key in [*part, "surprise"]:
            yield part, key
            yield from places(part.get(key))
    elif isinstance(part, list) and part:
        yield part, 0
        yield from places(part[0])


@contextmanager
def changed(outer, key, value):
    """Change a place of a document for a while; `...` takes it away."""
    before = copy.copy(outer)
    if value is not ...:
        outer[key] = value
    elif isinstance(outer, list) or key in outer:
        del outer[key]
    yield
    outer.clear()
    outer.update(before) if isinstance(outer, dict) else outer.extend(before)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_the_compiled_check_accepts_what_jsonschema_accepts(kind):
    """jsonschema is slow: of places that take the same values, it checks all values in one, and one in the others."""
    schema_file, document = DOCUMENTS[kind]
    document, generator = copy.deepcopy(document), random.Random(kind)
    fits, different, seen = json_schema._compiled(schema_file), [], set()
    for outer, key in list(places(document)):
        accepted = []
        for value in VALUES:
            with changed(outer, key, value):
                accepted += [value] if fits(document) else []
        for value in generator.sample(accepted, min(len(accepted), 1)) if repr(accepted) in seen else accepted:
            with changed(outer, key, value):
                different += [(key, value)] if json_schema.violation(document, schema_file) else []
        seen.add(repr(accepted))
    assert different == []


def schemas(schema):
    """A schema, and all schemas in it."""
    yield schema
    for keyword, value in schema.items():
        named = keyword in ("properties", "patternProperties", "$defs")
        for part in value.values() if named else value if keyword == "oneOf" else [value]:
            if isinstance(part, dict):
                yield from schemas(part)


@pytest.mark.parametrize("schema_file", sorted({file for file, _ in DOCUMENTS.values()}))
def test_the_compiled_check_knows_every_keyword(schema_file):
    known = set(CodeGeneratorDraft07({})._json_keywords_to_function) | {"then", "else"}
    for schema in schemas(json.loads(schema_file.read_text())):
        assert set(schema) - ANNOTATIONS <= ({"$ref"} if "$ref" in schema else known)


@pytest.mark.parametrize("written", ["chainer", "chainer-tpu", "keras-jax-cpu-fast"])
def test_a_trainer_that_there_can_not_be_is_no_valid_document(written):
    schema_file, document = DOCUMENTS["certificate"]
    document = copy.deepcopy(document)
    document["trainers"][0]["trainer"] = written
    assert not json_schema._compiled(schema_file)(document)
    assert json_schema.violation(document, schema_file) == f"trainers.0.trainer: '{written}' is not a 'trainer'"
