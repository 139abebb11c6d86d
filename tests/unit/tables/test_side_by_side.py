"""Records of one table and their certificates must be of one campaign."""

import json

import pytest
from records_for_tests import CODE, certificates_of, changed, record, resealed, session, written_tables

from trainmark.errors import CertificateError, RecordError
from trainmark.parity.certificate import read_certificate
from trainmark.tables.consistency import check_certificates, check_records, code_differences
from trainmark.tables.tables import read_records


def campaign(*changes, frameworks="ab"):
    """Records of two frameworks by their paths, each by a process of its own; changes: of the second, if any."""
    made = [record(name, changes=one) for name, one in zip(frameworks, (None, *changes, None), strict=False)]
    for number, one in enumerate(made):
        one["sessions"][0]["held_seconds"][0] = 10.0 + number
    return {one["run"]["id"]: resealed(one) for one in made}


def test_an_honest_campaign_is_not_refused():
    assert len(campaign()) == 2
    check_records(campaign())


def test_runs_of_both_loops_are_not_refused():
    assert "time_tuning" not in record()["settings"]["experiment"]
    tuned = record(
        loop="tuned", changes={"settings.experiment.time_tuning": True, "sessions.0.held_seconds": [20.0, 21.0]}
    )
    check_records(campaign() | {"tuned": tuned})


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"settings.seed": 2, "settings.experiment.seed": 2}, "differ in their settings (seed: 1 and 2)"),
        ({"settings.batch_size": 64, "settings.experiment.batch_size": "64"}, "(batch_size: 128 and 64)"),
        ({"settings.optimizer.learning_rate": 0.1}, "(optimizer: {'rule': 'adam', 'learning_rate': 0.001} and {"),
        ({"settings.input.scale": 1}, "differ in their settings (input: "),
        ({"dataset.content_sha256": "f" * 64}, "differ in their dataset (content_sha256: "),
        ({"dataset.samples.train": 1437}, "differ in their dataset (samples: "),
        ({"inputs.recipe": {"batch_size": 128}}, "differ in their recipe (optimizer: "),
    ],
)
def test_records_with_different_settings_or_data_are_refused(changes, says):
    with pytest.raises(RecordError) as caught:
        check_records(campaign(changes))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_experiment_may_have_other_settings():
    others = {"settings.seed": 2, "settings.experiment.seed": 2, "sessions.0.held_seconds": [20.0, 21.0]}
    check_records(campaign() | {"f": record(experiment="f", changes=others)})


def test_one_process_trains_one_run():
    """A record that was copied to another run, with its id and its digests renewed."""
    copied = {"sessions": [session()], "sessions.0.held_seconds": [10.0, 12.0]}
    with pytest.raises(RecordError, match=r"one process trained both, .*one of them is a copy; delete both"):
        check_records({"one": record(), "other": record(repeat=2, changes=copied)})


@pytest.mark.parametrize("renewed", [False, True])
def test_a_record_of_another_run_is_refused_at_its_place(tmp_path, renewed):
    """renewed: the copy's id was edited too, and its digests."""
    replaced = record(repeat=2)
    path = tmp_path / replaced["run"]["id"] / "record.json"
    path.parent.mkdir(parents=True)
    copy = changed(record(), {"run.id": replaced["run"]["id"]}) if renewed else record()
    path.write_text(json.dumps(copy))
    with pytest.raises(RecordError) as caught:
        read_records(tmp_path, [replaced["run"]["id"]])
    assert f"{path} is the record of another run, {record()['run']['id']}: it was copied or moved" in str(caught.value)


# --- certificates -------------------------------------------------------------------------------------------------


@pytest.fixture
def certified(tmp_path):
    """(records, certificates by group, the table of the runs) of two frameworks."""
    records, runs = written_tables(tmp_path, record("a"), record("b"))
    return records, certificates_of(runs), runs


def test_a_certificate_of_the_runs_settings_is_not_refused(certified):
    records, certificates, runs = certified
    assert len(certificates) == 1
    check_certificates(certificates, records.values())
    assert code_differences(*certificates.values(), runs) == code_differences(None, runs) == []


def test_a_certificate_of_another_group_is_refused(certified):
    records, certificates, _ = certified
    (certificate,) = certificates.values()
    with pytest.raises(
        CertificateError, match=r"the certificate of f, .* was made for e, mnist-mlp-flux, digits: it was"
    ):
        check_certificates({("f", "mnist-mlp-flux", "digits"): certificate}, records.values())


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("experiment", {"seed": 2}, "was made with the seed 2, but the run e/.* was trained with 1; delete results/"),
        ("experiment", {"batch_size": "full"}, "with the batch_size full, but the run"),
        ("optimizer", {"rule": "sgd", "learning_rate": 0.1}, "with the optimizer "),
        ("dataset_sha256", "f" * 64, "with the dataset_sha256 fff"),
    ],
)
def test_a_certificate_of_other_settings_or_data_is_refused(certified, key, value, says):
    records, certificates, _ = certified
    (certificate,) = certificates.values()
    certificate["settings"][key] = value
    with pytest.raises(CertificateError, match=says):
        check_certificates(certificates, records.values())


def test_a_certificate_of_other_code_is_named(certified):
    _, certificates, runs = certified
    (certificate,) = certificates.values()
    certificate["trainers"][1]["code"] = {"sha256": "0" * 16, "modules": CODE | {"trainmark.training.run": "0" * 16}}
    (sentence,) = code_differences(certificate, runs)
    assert sentence.startswith(
        "The code that was certified for b on cpu differs from the code that trained its runs (trainmark.training.run)."
    )


FORGED = {
    "class alone": ({"pairs.0.parity": "rounding"}, "are rounding, but their stages are"),
    "class of pair and stages": (
        {f"pairs.0.{key}parity": "rounding" for key in ("", "stages.network.", "stages.steps.")},
        "are rounding in the stage network, but its differences mean different",
    ),
    "stages left out": ({"pairs.0.parity": "rounding", "pairs.0.stages": {}}, "are rounding, but no stage is stored"),
    "an update off its rule": (
        {"pairs.0.parity": "rounding"}
        | {
            f"pairs.0.stages.{stage}": {"parity": "rounding", "steps": 2, "losses": 0, "gradients": 0, "weights": 0}
            | {"evaluation": 0, "updates": 1e-3}
            for stage in ("network", "steps")
        },
        "are rounding in the stage network, but its differences mean different",
    ),
    "a pair left out": ({"pairs.0.second": "a on gpu"}, "its pairs are not all pairs of its trainers"),
    "a trainer that failed": (
        {"trainers.0.failure": {"kind": "out_of_memory", "stage": "steps", "node": None, "message": "m"}}
        | {"pairs.0.parity": "rounding"},
        "are rounding, although one of them failed",
    ),
    "seed": ({"settings.seed": 2}, "its seed is 2, and its experiment's seed is 1"),
}


@pytest.fixture
def different(tmp_path):
    """A certificate of a pair that is different."""
    _, runs = written_tables(tmp_path, record("a"), record("b"))
    (certificate,) = certificates_of(runs, {("a on cpu", "b on cpu"): "different"}).values()
    return certificate


@pytest.mark.parametrize("edit", FORGED)
def test_an_edited_certificate_is_refused(different, tmp_path, edit):
    changes, says = FORGED[edit]
    path = tmp_path / "c.json"
    digest = different["sha256"]
    forged = changed(different, changes)
    path.write_text(json.dumps(forged))
    with pytest.raises(CertificateError) as caught:
        read_certificate(path)
    assert "contradicts itself: " in str(caught.value) and says in str(caught.value)
    path.write_text(json.dumps(forged | {"sha256": digest}))
    with pytest.raises(CertificateError, match="was changed after it was written"):
        read_certificate(path)


@pytest.mark.parametrize("parity", ["bitwise", "rounding", "single", "different", "not certified"])
def test_a_certificate_of_any_class_is_not_refused(tmp_path, parity):
    _, runs = written_tables(tmp_path, record("a"), record("b"))
    (certificate,) = certificates_of(runs, {("a on cpu", "b on cpu"): parity}).values()
    (tmp_path / "c.json").write_text(json.dumps(certificate))
    assert read_certificate(tmp_path / "c.json") == certificate
