"""Records of one table and their certificates must be of one campaign."""

import json

import pytest
from records_for_tests import (
    RECIPE,
    certificates_of,
    changed,
    held_from,
    record,
    timed_tuning,
    written_tables,
)

from trainmark.checks.campaign import check_certificates, check_records, check_tunings
from trainmark.errors import CertificateError, RecordError
from trainmark.parity.certificate import read_certificate

GROUP = ("e", "mnist-mlp-flux", "digits")


def campaign(*changes, frameworks="ab"):
    """Records of two frameworks by their paths, each by a process of its own; changes: of the second, if any."""
    named = enumerate(zip(frameworks, (None, *changes, None), strict=False), start=1)
    made = [record(name, seconds=number / 8, changes=one) for number, (name, one) in named]
    return {one["run"]["id"]: held_from(one, 10.0 * number) for number, one in enumerate(made)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"settings.seed": 2}, "differ in their settings (seed: 1 and 2)"),
        ({"dataset.samples.train": 1437}, "differ in their dataset (samples: "),
        ({"inputs.recipe": {"batch_size": 128}}, "differ in their recipe (optimizer: "),
        ({"dataset.mean_sha256": "f" * 64}, "differ in their dataset (mean_sha256: "),
        ({"inputs.initial_weights_sha256": "f" * 64}, "differ in their initial weights; delete"),
    ],
)
def test_records_with_different_settings_or_data_are_refused(changes, says):
    with pytest.raises(RecordError) as caught:
        check_records(campaign(changes))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


# --- certificates -------------------------------------------------------------------------------------------------


@pytest.fixture
def certified(tmp_path):
    """(the certificate of two frameworks, their records)."""
    records, runs = written_tables(tmp_path, record("a"), record("b"))
    return certificates_of(runs)[GROUP], records.values()


def test_a_certificate_of_the_runs_settings_is_not_refused(certified):
    certificate, records = certified
    check_certificates({GROUP: certificate}, records)


def test_a_certificate_of_another_group_is_refused(certified):
    certificate, records = certified
    with pytest.raises(CertificateError, match=r"certificate of f, .* was made for e, mnist-mlp-flux, digits: it was"):
        check_certificates({("f", *GROUP[1:]): certificate}, records)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("experiment", {"seed": 2}, "was made with the seed 2, but the run e/.* was trained with 1; delete results/"),
        ("recipe", {"optimizer": {"rule": "sgd", "learning_rate": 0.1}}, "with the optimizer .'rule': 'sgd'"),
        ("recipe", RECIPE | {"initializer": "zeros"}, "with the initializer zeros"),
        ("recipe", RECIPE | {"batch_size": 64}, "with the batch_size 64"),
        ("dataset_sha256", "f" * 64, "with the dataset_sha256 fff"),
        ("initial_weights_sha256", "f" * 64, "with the initial_weights_sha256 fff"),
    ],
)
def test_a_certificate_of_other_settings_or_data_is_refused(certified, key, value, says):
    certificate, records = certified
    certificate["settings"][key] = value
    with pytest.raises(CertificateError, match=says):
        check_certificates({GROUP: certificate}, records)


def stages(**changes):
    """Changes that make the pair's class and its stages `rounding`. changes: of the differences of both stages."""
    stage = {"parity": "rounding", "steps": 2, "losses": 1e-14, "gradients": 0, "weights": 0, "evaluation": 0}
    found = stage | {"updates": 0} | changes
    return {"pairs.0.parity": "rounding"} | {f"pairs.0.stages.{name}": found for name in ("network", "steps")}


FAILURE = {"kind": "out_of_memory", "stage": "steps", "node": None, "message": "m"}
TOO_FAR = {"what": "w", "difference": 0.5, "allowed": 0.1, "step": 3, "layer": None}

FORGED = {
    "class alone": ({"pairs.0.parity": "rounding"}, "are rounding, but their stages are"),
    "class of pair and stages": (
        stages(gradients=0.25), "are rounding in the stage network, but its differences mean different",
    ),
    "stages left out": ({"pairs.0.parity": "rounding", "pairs.0.stages": {}}, "are rounding, but no stage is stored"),
    "an update off its rule": (
        stages(updates=1e-3), "are rounding in the stage network, but its differences mean different",
    ),
    "a pair left out": ({"pairs.0.second": "a on gpu"}, "its pairs are not all pairs of its trainers"),
    "a trainer that failed": (stages() | {"trainers.0.failure": FAILURE}, "are rounding, although one of them failed"),
    "an adapter that errs": (
        stages() | {"trainers.0.checks": {"order": "has another loss"}}, "are rounding, although one of them failed",
    ),
    "whole epochs": (stages() | {"pairs.0.epochs": [TOO_FAR]}, "are rounding, but differ too much in w"),
}  # fmt: skip


def certificate_of_class(folder, parity):
    _, runs = written_tables(folder, record("a"), record("b"))
    return certificates_of(runs, {("a on cpu", "b on cpu"): parity})[GROUP]


@pytest.mark.parametrize("edit", FORGED)
def test_an_edited_certificate_is_refused(tmp_path, edit):
    changes, says = FORGED[edit]
    path = tmp_path / "c.json"
    path.write_text(json.dumps(changed(certificate_of_class(tmp_path, "different"), changes)))
    with pytest.raises(CertificateError) as caught:
        read_certificate(path)
    assert "contradicts itself: " in str(caught.value) and says in str(caught.value)


@pytest.mark.parametrize("parity", ["bitwise", "rounding", "single", "different", "not certified"])
def test_a_certificate_of_any_class_is_not_refused(tmp_path, parity):
    certificate = certificate_of_class(tmp_path, parity)
    (tmp_path / "c.json").write_text(json.dumps(certificate))
    assert read_certificate(tmp_path / "c.json") == certificate


# --- timed tunings --------------------------------------------------------------------------------------------------


def test_a_tuning_must_be_of_its_path_and_of_the_settings_of_its_runs():
    tuned = record("a", loop="tuned", changes={"settings.time_tuning": True})
    of, tuning = "/".join((*GROUP, "a-cpu-tuned")), timed_tuning(settings=tuned["settings"])
    check_tunings({of: tuning}, [tuned, record("a")])
    with pytest.raises(RecordError, match=r"was made for e/mnist-mlp-flux/digits/a-cpu-tuned: it was copied"):
        check_tunings({of.replace("/a-", "/b-"): tuning}, [tuned])
    other = timed_tuning(settings=tuned["settings"] | {"seed": 99})
    with pytest.raises(RecordError, match=r"other settings than the run .* \(seed: 99 and "):
        check_tunings({of: other}, [tuned])
    check_tunings({of: other}, [record("a")])  # the stock loop has nothing to do with it
