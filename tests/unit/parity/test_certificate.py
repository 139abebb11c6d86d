"""The certificate: its content, its file and its sentences."""

import json

import pytest
from fake_trainer import ARCHITECTURE, FakeAdapter, failing, fake_training, spoiling, trace, untouched

from trainmark.errors import CertificateError
from trainmark.files.seal import sealed
from trainmark.parity.certificate import (
    certificate,
    certificate_lines,
    pair_of,
    read_certificate,
    read_certificates,
    write_certificate,
)
from trainmark.parity.epoch_check import LOSSES

GROUP = {"experiment": "e", "recipe": "mnist-mlp-flux", "dataset": "digits"}

SETTINGS = {
    "architecture": "fake", "parameters": 74, "classes": 4, "input_shape": [1, 3, 3],
    "trained_input_shape": [1, 9, 9], "dataset_sha256": "0" * 64, "steps": 10, "batch_size": 4, "evaluation_samples": 6,
    "epochs": {"batches": [8, 8], "samples": [32, 32], "batch_size": 4}, "initial_weights_sha256": None,
    "experiment": {"seed": 1}, "recipe": {}, "code": {"sha256": "a" * 16, "shared": "a" * 16},
}  # fmt: skip


def traced(name, spoil=untouched, **changes):
    return trace(FakeAdapter(name, spoil), fake_training(settings=SETTINGS | changes), "cpu")


@pytest.fixture(scope="module")
def found():
    """A certificate of four trainers: two are equal, one has an error, one runs out of memory."""
    traces = [
        traced("a"),
        traced("b"),
        traced("c", spoiling("forward", "norm", 0.01)),
        traced("d", failing("loss", "loss", MemoryError("full"))),
    ]
    return certificate(GROUP, traces, ARCHITECTURE, SETTINGS["code"])


def test_every_pair_has_its_class(found):
    assert [(pair["first"][0], pair["second"][0], pair["parity"]) for pair in found["pairs"]] == [
        ("a", "b", "bitwise"), ("a", "c", "different"), ("a", "d", "not certified"), ("b", "c", "different"),
        ("b", "d", "not certified"), ("c", "d", "not certified"),
    ]  # fmt: skip
    assert [trainer["failure"] and trainer["failure"]["kind"] for trainer in found["trainers"]] == [
        None, None, None, "out_of_memory",
    ]  # fmt: skip
    location = pair_of(found, "c on cpu", "a on cpu")["location"]
    assert (location["layer"], location["op"], location["what"], location["step"]) == (
        "norm",
        "BatchNorm",
        "forward",
        1,
    )
    assert pair_of(found, "a on cpu", "a on gpu") is None
    assert pair_of(None, "a on cpu", "b on cpu") is None


def test_a_certificate_is_read_back_from_its_file(found, tmp_path):
    path = tmp_path / "e" / "mnist-mlp-flux" / "digits.json"
    write_certificate(found, path)
    assert read_certificate(path) == json.loads(json.dumps(sealed(found)))
    group, file = ("e", "mnist-mlp-flux", "digits"), str(path.relative_to(tmp_path))
    plan = {"certificates": {"/".join(group): {"file": file}}}
    assert read_certificates(tmp_path, plan, [group]) == {group: read_certificate(path)}
    assert [one.name for one in path.parent.iterdir()] == ["digits.json"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"pairs": []}, "pairs"),
        ({"schema_version": 99}, "schema_version"),
        ({"more": 1}, "top level"),
        ({"settings": {}}, "settings"),
    ],
)
def test_a_document_that_does_not_fit_the_schema_is_refused(found, tmp_path, change, where):
    path = tmp_path / "c.json"
    with pytest.raises(CertificateError, match=f"not a certificate of this version of trainmark: {where}"):
        write_certificate(found | change, path)
    assert not path.exists()
    path.write_text(json.dumps(sealed(found | change)))
    with pytest.raises(CertificateError, match=where):
        read_certificate(path)


def test_traces_of_different_settings_are_not_compared():
    with pytest.raises(CertificateError, match="b on cpu and a on cpu were traced with different settings"):
        certificate(GROUP, [traced("a"), traced("b", steps=2)], ARCHITECTURE, SETTINGS["code"])


def test_certificate_lines_state_the_losses_of_whole_epochs(found):
    losses = {"what": LOSSES, "difference": 2e-6, "allowed": 1e-4, "step": 1, "layer": None}
    (line,) = certificate_lines({"pairs": [found["pairs"][0] | {"epochs": [losses]}]})
    assert line.endswith("bitwise equal; over whole epochs in float32 the losses differ by 2.0e-06")
