"""Environment variables: seconds in them, and those that a job does not get."""

import pytest

from trainmark.errors import ConfigError
from trainmark.frameworks.registry import unset_settings_of_frameworks
from trainmark.machine.variables import VARIABLES, seconds_in, unset_settings


def test_seconds(monkeypatch):
    for text, seconds in [("0", 0), ("2.5", 2.5), ("", 5), (" ", 5)]:
        monkeypatch.setenv("WAIT", text)
        assert seconds_in("WAIT", 5) == seconds
    for text in ("5s", "-1", "nan", "five"):
        monkeypatch.setenv("WAIT", text)
        with pytest.raises(ConfigError, match=f"WAIT in the environment is '{text}'; allowed: a number of seconds"):
            seconds_in("WAIT", 5)
    monkeypatch.delenv("WAIT")
    assert seconds_in("WAIT", 5) == 5


def test_what_a_record_does_not_hold_does_not_decide_a_job():
    kept = {
        "JAX_PLATFORMS": "cpu",
        "CHAINER_DTYPE": "float32",
        "CUPY_CACHE_DIR": "/c",
        "HOME": "/h",
        "PYTHONPATH": "/p",
    }
    lost = ("JAX_DEBUG_NANS", "KERAS_MAX_EPOCHS", "CHAINER_SEED", "NNX_GRAPH_MODE", "TORCH_LOGS", "MPLBACKEND")
    environment = kept | dict.fromkeys(lost, "1")
    unset_settings_of_frameworks(environment)
    unset_settings(environment)
    assert environment == kept
    assert {"JAX_PLATFORMS", "CHAINER_DTYPE"} < {*VARIABLES}
