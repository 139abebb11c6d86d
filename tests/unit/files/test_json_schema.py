"""The schemas of trainmark's own files, and how they are checked."""

import json

import pytest
import records_for_tests
from fastjsonschema.draft07 import CodeGeneratorDraft07

from trainmark.files.json_schema import violation
from trainmark.parity import certificate
from trainmark.records import evaluation, record, tuning
from trainmark.trainer import Trainer

TRAINERS = [Trainer("chainer", "cpu"), Trainer("keras-jax", "cpu", "tuned")]
SCHEMA_FILES = [module.SCHEMA_FILE for module in (certificate, evaluation, record, tuning)]
ANNOTATIONS = {"$schema", "$defs", "title", "description"}


def schemas(schema):
    """A schema, and all schemas in it."""
    yield schema
    for keyword, value in schema.items():
        named = keyword in ("properties", "patternProperties", "$defs")
        for part in value.values() if named else value if keyword == "oneOf" else [value]:
            if isinstance(part, dict):
                yield from schemas(part)


@pytest.mark.parametrize("schema_file", SCHEMA_FILES)
def test_the_compiled_check_knows_every_keyword(schema_file):
    """fastjsonschema passes over a keyword that it does not know."""
    known = set(CodeGeneratorDraft07({})._json_keywords_to_function) | {"then", "else"}
    for schema in schemas(json.loads(schema_file.read_text())):
        assert set(schema) - ANNOTATIONS <= ({"$ref"} if "$ref" in schema else known)


@pytest.mark.parametrize("written", ["chainer", "chainer-tpu", "keras-jax-cpu-fast"])
def test_a_trainer_that_there_can_not_be_is_no_valid_document(written):
    document = records_for_tests.certificate_of(("e", "mnist-mlp-flux", "digits"), TRAINERS, {})
    document["trainers"][0]["trainer"] = written
    assert violation(document, certificate.SCHEMA_FILE) == "trainers[0].trainer must be trainer"
