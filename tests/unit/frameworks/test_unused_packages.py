"""Packages that no training uses are hidden while a framework is imported."""

import pytest
import yaml
from harness import REPOSITORY

from trainmark.frameworks.registry import known_frameworks

DECODERS = {"cv2"}
"""Packages that the environments have for the decoding of images."""

NAMES = {"cv2": "opencv-python-headless", "sklearn": "scikit-learn"}
"""Packages whose distribution has another name."""


@pytest.mark.parametrize("name", known_frameworks())
def test_the_environment_of_a_framework_lacks_what_is_hidden(name):
    """Otherwise a package would be hidden that the framework needs."""
    (*_, pip) = yaml.safe_load((REPOSITORY / "envs" / f"{name}.yaml").read_text())["dependencies"]
    installed = {requirement.partition("==")[0] for requirement in pip["pip"]}
    hidden = set(known_frameworks()[name].unused_packages) - DECODERS
    assert not {NAMES.get(package, package) for package in hidden} & installed
