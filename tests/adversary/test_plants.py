"""Plants in whole workflows are named at their places; `make plants` has all of them, and takes an hour.

`make honest` shows beside them that nothing honest is refused.
"""

import shutil

import planted_campaigns
import pytest
from harness import REPOSITORY
from plants import PLANTS, hunks_in

pytestmark = [pytest.mark.adversary, pytest.mark.timeout(1800)]

LIBRARY = REPOSITORY / "workflow" / "scripts" / "trainmark"

OF_KINDS = ["half-rate-from-40", "gradients-kept", "logit-helped"]
"""Errors that begin late or show in evaluations alone, beside one campaign of the same trainers; the other tests of
this folder have other kinds."""


def test_plants_are_named_at_the_right_place(tmp_path, capsys):
    with capsys.disabled():
        assert not planted_campaigns.judge_plants(OF_KINDS, tmp_path, plain=False)


def test_every_plant_fits_the_library_of_today(tmp_path):
    for name, plant in PLANTS.items():
        library = shutil.copytree(LIBRARY, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        hunks_in(library, plant.hunks)
        shutil.rmtree(library)
