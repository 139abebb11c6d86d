"""The cluster profiles have the settings of the default one."""

import pytest
import yaml
from harness import REPOSITORY


@pytest.mark.parametrize("profile", ["slurm", "gridengine", "tsubame"])
def test_a_profile_has_the_settings_of_the_default_one(profile):
    default, own = (
        yaml.safe_load((REPOSITORY / "profiles" / name / "config.yaml").read_text()) for name in ("default", profile)
    )
    assert default.items() <= own.items()
    assert (own["executor"], own["trainmark-scheduler"]) == ("trainmark", profile)
