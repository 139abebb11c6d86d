"""Photographs of ten ImageNet classes through the whole workflow: the five networks, overfitting.

An hour and a half on two cores. `pytest -s -m real_data tests/workflow/test_real_photographs.py` prints the
certificates, tables and accuracies behind docs/expected.md.
"""

from itertools import product

import pytest
from harness import FRAMEWORKS, REPOSITORY, finish, keyed, write_config

from trainmark.parity.certificate import certificate_lines, read_certificate
from trainmark.recipes.catalogue import RECIPES
from trainmark.records.record import read_record

PHOTOGRAPHS = REPOSITORY.parent / "shared" / "data" / "imagenette2-224-subset"
"""train/<wnid>/ and val/<wnid>/ of ten classes: 400 and 100 photographs."""

MINE = {"title": "Ten classes of ImageNet", "format": "image_folder", "folder": str(PHOTOGRAPHS)}

SMALL = {"datasets": ["mine"], "devices": ["cpu"], "epochs": [1], "batch_size": 10, "keep_weights": False}
"""What a small file changes in config/imagenet.yaml. Batches of ten: one epoch has enough steps to be certified."""

NETWORKS = [name for name in RECIPES if name.startswith("imagenet-")]

pytestmark = [
    pytest.mark.real_data,
    pytest.mark.timeout(3 * 3600),
    pytest.mark.skipif(not PHOTOGRAPHS.is_dir(), reason=f"{PHOTOGRAPHS.name} is not beside the repository"),
]


def run(folder, config, *below):
    """Run snakemake on a config over others, which must succeed, and return the folder of its results."""
    finish(folder, "--cores", "2", "--configfile", *map(str, below), write_config(folder, config))
    print((folder / "results" / "tables" / "summary.txt").read_text())
    return folder / "results"


def records(results):
    """Each run's record by (recipe, dataset, framework)."""
    found = [read_record(path) for path in (results / "runs").rglob("record.json")]
    return {tuple(record["run"][key] for key in ("recipe", "dataset", "framework")): record for record in found}


def test_the_five_networks_train_to_a_report_and_are_equal_up_to_rounding(tmp_path):
    small = {"datasets": {"mine": MINE}, "experiments": {"imagenet": SMALL | {"input": {"crop": [128, 128]}}}}
    results = run(tmp_path, small, REPOSITORY / "config" / "imagenet.yaml")
    assert set(records(results)) == set(product(NETWORKS, ["mine"], FRAMEWORKS))
    for network in NETWORKS:
        certificate = read_certificate(keyed(tmp_path, f"certificates/imagenet/{network}/mine/*.json"))
        print(network, *certificate_lines(certificate), sep="\n  ")
        assert [pair["parity"] for pair in certificate["pairs"]] == ["rounding"] * 3, network
    assert all(network in (results / "report" / "index.html").read_text() for network in NETWORKS)


@pytest.mark.parametrize(("network", "side", "learning_rate"), [("alex", 99, 0.01), ("resnet50", 64, 0.001)])
def test_a_network_overfits_40_photographs(tmp_path, network, side, learning_rate):
    classes = sorted((PHOTOGRAPHS / "train").iterdir())
    forty = [(path, label) for label, folder in enumerate(classes) for path in sorted(folder.iterdir())[:4]]
    lines = [f"{path.relative_to(PHOTOGRAPHS)} {label}\n" for path, label in forty]
    (tmp_path / "forty.txt").write_text("".join(lines))
    lists = dict.fromkeys(("train", "test"), str(tmp_path / "forty.txt"))
    experiment = {
        "recipes": [f"imagenet-{network}"],
        "datasets": ["forty"],
        "frameworks": ["chainer", "keras-jax"],
        "epochs": [90],
        "repeats": 1,
        "optimizer": {"learning_rate": learning_rate},
        "learning_rate_schedule": {"milestones": [60], "factor": 0.1},
        "input": {"crop": [side, side], "random_crop": False, "random_flip": False},
    }
    config = {
        "datasets": {"forty": {"title": "Forty", "format": "image_list", "folder": str(PHOTOGRAPHS), "lists": lists}},
        "experiments": {"overfit": SMALL | experiment},
    }
    found = records(run(tmp_path, config))
    assert len(found) == 2
    assert all(record["result"]["test_accuracy"] > 0.95 for record in found.values())
