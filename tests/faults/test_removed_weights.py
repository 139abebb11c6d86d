"""An evaluation that is killed while it removes weights ends as one that nobody killed."""

from pathlib import Path

import pytest
from harness import calling, experiment_of, keyed, on_path, snakemake, write_config
from killing_python import plan_of

from trainmark.records.evaluation import read_evaluation
from trainmark.verification.results import verify_results

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

EXPERIMENT = experiment_of(frameworks=["chainer", "keras-jax"], repeats=3)
EVALUATION = "e/mnist-mlp-flux/digits/chainer-cpu"


WITHOUT_DOCSTRINGS = {"PYTHONOPTIMIZE": "2", "PYTHONMALLOC": "debug", "PYTHONDONTWRITEBYTECODE": ""}
"""Settings of a user with which assertions and docstrings are gone; the modules are compiled once, for this test."""


@pytest.mark.parametrize(("signal_name", "variables"), [("SIGKILL", {}), ("SIGTERM", WITHOUT_DOCSTRINGS)])
def test_the_next_call_removes_the_rest(tmp_path, monkeypatch, signal_name, variables):
    (tmp_path / "kills").mkdir()
    monkeypatch.setenv("KILLS", str(tmp_path / "kills"))
    plan_of(EVALUATION).write_text(f"{signal_name} removal 2")
    path = on_path(tmp_path, calling(Path(__file__).with_name("killing_python.py")))
    name = write_config(tmp_path, {"experiments": {"e": EXPERIMENT}})

    def call(*arguments):
        compiled = {"PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")} if variables else {}
        return snakemake(tmp_path, "--cores", "2", "--configfile", name, *arguments, PATH=path, **variables, **compiled)

    killed = call()
    assert killed.returncode != 0
    assert (tmp_path / "kills" / "done").read_text().splitlines() == [f"{signal_name} removal 2 {EVALUATION}"]
    runs = tmp_path / "results/runs/e/mnist-mlp-flux/digits/keras-jax-cpu/epochs-1"
    left = sorted(path.parents[1].name for path in runs.rglob("weights.npz"))
    assert left == ["repeat-2", "repeat-3"], "the kill came before the second run's weights went"

    again = call()
    assert again.returncode == 0, again.printed[-3000:]
    assert not list((tmp_path / "results").rglob("weights.npz"))
    entries = read_evaluation(keyed(tmp_path, f"evaluations/{EVALUATION}/*.json"))["runs"]
    assert sorted(entries) == [
        f"e/mnist-mlp-flux/digits/keras-jax-cpu/epochs-1/repeat-{repeat}" for repeat in (1, 2, 3)
    ]
    assert "Nothing to be done" in call("-n").printed
    found = verify_results(tmp_path / "results", data=False)
    assert found.problems == []
    assert "weights of 6 runs removed after their evaluation" in found.facts
