"""A plant of each kind in a whole workflow is named at its place; `make plants` has the others, and takes an hour."""

import shutil

import planted_campaigns
import pytest
from harness import REPOSITORY
from plants import PLANTS, hunks_in

pytestmark = [pytest.mark.adversary, pytest.mark.timeout(1800)]

LIBRARY = REPOSITORY / "workflow" / "scripts" / "trainmark"

OF_EACH_KIND = [
    "equal-masks-flax",
    "torch-train-missing",
    "half-rate-from-40",
    "gradients-kept",
    "logit-helped",
    "second-moment-16-bit",
    "seed-of-variant",
    "forged-longer-epochs",
]
"""What differs most from what the other tests of this folder plant, in as few campaigns as possible."""


def test_plants_are_named_at_the_right_place(tmp_path, capsys):
    with capsys.disabled():
        assert not planted_campaigns.judge_plants(OF_EACH_KIND, tmp_path, plain=False)


def test_an_honest_campaign_on_a_busy_machine_is_not_refused(tmp_path, capsys):
    with capsys.disabled():
        assert not planted_campaigns.judge_honest(["dropout-torch-busy"], tmp_path, plain=False)


def test_every_plant_fits_the_library_of_today(tmp_path):
    for name, plant in PLANTS.items():
        library = shutil.copytree(LIBRARY, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        hunks_in(library, plant.hunks)
        shutil.rmtree(library)
