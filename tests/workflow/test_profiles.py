"""The cluster profiles, without a scheduler: a dry run, and the submit commands that validate.py prints."""

from itertools import pairwise

import pytest
import yaml
from harness import REPOSITORY, run_script, write_config

PROFILES = ("slurm", "gridengine", "tsubame")
CONFIG = {
    "recipes": ["mnist-mlp-flux"], "frameworks": ["chainer"], "devices": ["cpu", "gpu"], "workers": [1, 2],
    "repeats": 1,
}  # fmt: skip
SITE = {"options": {"all": {"group": None, "node_type": "h_node"}}}


@pytest.fixture
def validate(tmp_path):
    """Runs validate.py --profile in a folder of its own."""
    config = write_config(tmp_path, {"experiments": {"e": CONFIG}})

    def run(profile, site=None):
        (tmp_path / "config").mkdir(exist_ok=True)
        if site:
            (tmp_path / "config" / "site.yaml").write_text(yaml.safe_dump(site))
        return run_script("validate", "--profile", profile, config, cwd=tmp_path)

    return run


@pytest.mark.parametrize("profile", ["slurm", *(pytest.param(name, marks=pytest.mark.faults) for name in PROFILES[1:])])
def test_each_kind_of_job_is_shown_with_its_submit_command(validate, profile):
    """It is a dry run with the profile."""
    shown = validate(profile, SITE if profile == "tsubame" else None)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    kinds = {line.removesuffix(":") for line in lines if line.endswith(":")}
    once = {"prepare_dataset", "compute_mean_image", "check_gpu on gpu", "certify", "plot_figures", "report"}
    evaluated = {f"evaluate_weights on {device}" for device in ("cpu", "gpu")}
    assert kinds == once | evaluated | {
        f"{rule} on {device}{workers}"
        for rule in ("train", "trace_training")
        for device in ("cpu", "gpu")
        for workers in ("", ", 2 workers")
    }
    commands = [line for line in lines if line.startswith("  ")]
    assert len(commands) == len(kinds)
    assert {command.split()[0] for command in commands} == {"sbatch" if profile == "slurm" else "qsub"}


def test_a_run_with_several_workers_is_a_job_of_its_own_with_as_many_tasks(validate):
    lines = validate("slurm", {"runs_per_job": 20}).stdout.splitlines()
    command = dict(pairwise(lines))
    of_one, of_two = command["train on cpu:"], command["train on cpu, 2 workers:"]
    assert "trainmark-runs-cpu" in of_one
    assert "--ntasks=1 --cpus-per-task=2 " in of_one
    assert "trainmark-train" in of_two
    assert "--mem=8000M --ntasks=2 --cpus-per-task=2 " in of_two


@pytest.mark.parametrize("profile", PROFILES)
def test_a_profile_has_the_settings_of_the_default_one(profile):
    default, own = (
        yaml.safe_load((REPOSITORY / "profiles" / name / "config.yaml").read_text()) for name in ("default", profile)
    )
    assert default.items() <= own.items()
    assert (own["executor"], own["trainmark-scheduler"]) == ("trainmark", profile)
