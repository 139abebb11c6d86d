"""Whether a file is what the config asks for is read in the file itself."""

import json

import numpy as np
import pytest
from campaigns import GROUP, campaign_of, wildcards
from harness import Wildcards
from records_for_tests import certificate_of, changed, record

from trainmark.files.checksums import sha256_of
from trainmark.plan.campaign import Campaign
from trainmark.plan.products import MANIFEST, RECORD_FILE, TABLES
from trainmark.plan.staleness import sha256_of_input
from trainmark.recipes.catalogue import RECIPES

CELL = wildcards()
PREPARED = "results/datasets/digits/prepared/manifest.json"


@pytest.fixture
def campaign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return campaign_of()


def write(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


def asked_certificate(campaign, changes):
    """The certificate that the campaign asks for in GROUP, with changes."""
    certify, *code = campaign.certificate_code(CELL)
    found = certificate_of(tuple(GROUP.values()), campaign.trainers(CELL), {})
    asked = {
        "settings.experiment": json.loads(campaign.certified_settings(CELL)),
        "settings.recipe": json.loads(campaign.certified_recipe(CELL)),
        "code": {"sha256": certify, "shared": "0" * 16},
        **{f"trainers.{i}.code": {"sha256": sha256, "shared": "0" * 16} for i, sha256 in enumerate(code)},
    }
    return changed(found, asked | changes)


def asked_record(campaign, changes=None):
    """The record that the campaign asks for at CELL, with changes."""
    return record(
        experiment="small",
        changes={
            "settings": json.loads(campaign.settings(CELL)),
            "inputs.recipe": json.loads(campaign.recipe(CELL)),
            "provenance.code.sha256": campaign.training_code(CELL),
        }
        | (changes or {}),
    )


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({}, []),
        ({"settings.seed": 7}, ["settings"]),
        ({"inputs.recipe.batch_size": 64}, ["recipe"]),
        ({"run.id": "small/other"}, ["run"]),
        ({"dataset.content_sha256": "f" * 64}, ["dataset"]),
        ({"provenance.code.sha256": "0" * 16}, ["code"]),
        ({"settings.seed": 7, "provenance.code.sha256": "0" * 16}, ["settings", "code"]),
        ({"inputs.initial_weights_sha256": "f" * 64}, ["initial weights"]),
        ({"inputs": ...}, ["format"]),  # of an earlier version
        ({"settings": ...}, ["format"]),
    ],
)
def test_what_a_record_is_stale_of(campaign, tmp_path, changes, stale):
    write(tmp_path / PREPARED, {"content_sha256": "0" * 64})
    write(tmp_path / RECORD_FILE.format_map(CELL), asked_record(campaign, changes))
    assert campaign.stale_record(CELL, with_code=True) == stale
    assert campaign.stale_record(CELL, with_code=False) == [what for what in stale if what != "code"]


@pytest.mark.parametrize("text", ["", "[]", "1"])
def test_what_is_no_record_is_made_anew(campaign, tmp_path, text):
    path = tmp_path / RECORD_FILE.format_map(CELL)
    write(path, {})
    path.write_text(text)
    assert campaign.stale_record(CELL, with_code=True) == ["format"]


def test_no_record_and_a_dataset_that_is_not_prepared_make_nothing_stale(campaign, tmp_path):
    assert campaign.stale_record(CELL, with_code=True) == []
    write(tmp_path / RECORD_FILE.format_map(CELL), asked_record(campaign))
    assert campaign.stale_record(CELL, with_code=True) == []


@pytest.mark.parametrize(
    ("changes", "stale"),
    [
        ({}, []),
        ({"experiment": "other"}, ["group"]),
        ({"settings.experiment.seed": 7}, ["settings"]),
        ({"settings.recipe.certified_side": 64}, ["recipe"]),
        ({"settings.dataset_sha256": "f" * 64}, ["dataset"]),
        ({"settings.initial_weights_sha256": "f" * 64}, ["initial weights"]),
        ({"code.sha256": "0" * 16}, ["code"]),
        ({"trainers.0.code.sha256": "0" * 16}, ["code"]),
        ({"trainers.0.trainer": "keras-torch-cpu"}, ["code"]),
        ({"code": ...}, ["format"]),
    ],
)
def test_what_a_certificate_is_stale_of(campaign, tmp_path, changes, stale):
    write(tmp_path / PREPARED, {"content_sha256": "0" * 64})
    write(tmp_path / campaign.certificates[0], asked_certificate(campaign, changes))
    assert campaign.stale_certificate(CELL, with_code=True) == stale
    assert campaign.stale_certificate(CELL, with_code=False) == [what for what in stale if what != "code"]


@pytest.mark.parametrize(
    ("changes", "is_kept"), [({}, True), ({"trainers.0.code.sha256": "0" * 16}, False), (None, False)]
)
def test_a_certificate_is_kept_if_trainers_fail_after_it_was_made(campaign, tmp_path, changes, is_kept):
    """Without one, or if it is outdated, the trainers that are left are certified: traces of the others may fail."""
    frameworks = ["chainer", "keras-jax", "keras-tensorflow"]
    planned = campaign_of(frameworks=frameworks)
    if changes is not None:
        write(tmp_path / planned.certificates[0], asked_certificate(planned, changes))
    failed = {run.id: "no luck" for run in planned.runs if run.trainer.framework == "keras-jax"}
    left = Campaign(planned.config, planned.catalogue, failed)
    traced = [trace for trace in left.traces(CELL) if "keras-jax" in trace]
    assert bool(traced) == is_kept
    assert len(left.trainers(CELL)) == 2 and not left.stale_certificate(CELL, with_code=is_kept)


def test_a_changed_file_of_initial_weights_makes_runs_and_certificates_stale(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    architecture = RECIPES["mnist-mlp-flux"].architecture((1, 28, 28), 10)
    weights = {parameter.name: np.zeros(parameter.shape) for parameter in architecture.arrays()}
    for number in (0, 1):
        sha256_of_input.cache_clear()  # a workflow computes it once
        np.savez("weights.npz", **weights | {"dense1.bias": np.full(32, float(number))})
        campaign = campaign_of(initial_weights="weights.npz")
        assert campaign.initial_weights(CELL) == ["weights.npz"]
        if number == 0:
            sha256 = sha256_of(tmp_path / "weights.npz")
            made = asked_record(campaign, {"inputs.initial_weights_sha256": sha256})
            write(tmp_path / RECORD_FILE.format_map(CELL), made)
        assert campaign.stale_record(CELL, with_code=True) == ["initial weights"] * number
    assert campaign.initial_weights(wildcards(trainer="command-cpu")) == []
    group = Wildcards(GROUP)
    assert (campaign.initial_weights(group), campaign_of().initial_weights(group)) == (["weights.npz"], [])


# --- tables -------------------------------------------------------------------------------------------------------


@pytest.fixture
def tables(campaign, tmp_path):
    """The manifest of tables that are made of what lies there."""
    made_of = {}
    for file in [*campaign.records, *campaign.certificates, *campaign.evaluations]:
        document = record(changes={"run.id": file})
        write(tmp_path / file, document)
        made_of[file.removeprefix("results/")] = document["sha256"]
    table = tmp_path / TABLES / "summary.csv"
    table.parent.mkdir(parents=True)
    table.write_text("a,b\n")
    manifest = {"order": campaign.order, "made_of": made_of, "tables": {"summary.csv": sha256_of(table)}}
    write(tmp_path / TABLES / MANIFEST, manifest)
    return manifest


def test_tables_are_made_anew_for_other_runs_edited_records_and_an_edited_or_deleted_table(campaign, tables, tmp_path):
    assert campaign.stale_tables(CELL, with_code=True) == []
    assert campaign_of(repeats=1).stale_tables(CELL, with_code=True) == ["runs", "records"]
    assert campaign_of(seed=5).stale_tables(CELL, with_code=True) == ["runs"], "another order"
    path, table = tmp_path / campaign.records[0], tmp_path / TABLES / "summary.csv"
    text = path.read_text()
    path.write_text(text.replace('"accuracy": 0.75', '"accuracy": 0.5'))  # the digest in it is as it was
    assert campaign.stale_tables(CELL, with_code=True) == ["records"]
    path.write_text(text)
    table.write_text("a,c\n")
    assert campaign.stale_tables(CELL, with_code=True) == ["content"]
    table.unlink()
    assert campaign.stale_tables(CELL, with_code=True) == ["content"]
