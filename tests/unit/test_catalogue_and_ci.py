"""The files that Snakemake's workflow catalogue and a forge's CI look for hold what these expect."""

import os
import re
import subprocess

import yaml

from trainmark.config.load import REPOSITORY, load_config
from trainmark.plan.matrix import LEAST_PAIRS, expand_runs

CATALOGUE_FILE = REPOSITORY / ".snakemake-workflow-catalog.yml"
CONFIG_README = REPOSITORY / "config" / "README.md"
LINKS = re.findall(r"\]\(([^)#:]+)\)", CONFIG_README.read_text())
CONTENT_TABLE = re.findall(r"^\| `([^`]+)` \|", CONFIG_README.read_text(), re.MULTILINE)


# --- the workflow catalogue: what its README asks of repositories with standardized usage ----------------------------


def test_the_catalogue_finds_what_it_searches_for_and_where_it_looks():
    text = (REPOSITORY / "README.md").read_text().lower()
    assert "snakemake" in text and "workflow" in text
    usage = yaml.safe_load(CATALOGUE_FILE.read_text())["usage"]
    assert set(usage) == {"mandatory-flags", "software-stack-deployment", "report"}
    assert set(usage["mandatory-flags"]) == {"desc", "flags"}
    assert usage["software-stack-deployment"] == {"conda": True} and usage["report"] is True
    assert (REPOSITORY / "workflow" / "Snakefile").is_file()
    assert {path.suffix for path in (REPOSITORY / "workflow" / "rules").iterdir()} == {".smk"}


def test_every_rule_has_the_conda_environment_that_the_settings_promise():
    rules = "".join(path.read_text() for path in (REPOSITORY / "workflow" / "rules").glob("*.smk"))
    assert rules.count("    conda:\n") == rules.count("\nrule ")
    assert rules.count("    container:\n") == rules.count("\nrule ") - 1  # run_command starts its container itself
    assert "report(" in rules


def test_config_readme_names_every_file_beside_it_and_no_other():
    for target in [*LINKS, *CONTENT_TABLE]:
        assert (CONFIG_README.parent / target).exists(), target
    beside = {path.name for path in CONFIG_README.parent.iterdir()} - {"README.md"}
    assert beside == {name.rstrip("/") for name in CONTENT_TABLE if not name.startswith("..")}


def test_the_example_in_config_readme_is_valid(tmp_path):
    (example,) = re.findall(r"```yaml\n(.*?)```", CONFIG_README.read_text(), re.DOTALL)
    (tmp_path / "my.yaml").write_text(example)
    assert load_config([tmp_path / "my.yaml"])[0]["experiments"]["my-experiment"]["repeats"] >= LEAST_PAIRS


def test_the_test_config_is_small_and_needs_no_download():
    config, catalogue = load_config([REPOSITORY / ".test" / "config" / "config.yaml"])
    runs = expand_runs(config)
    assert len(runs) == 2, "the fewest that are compared"
    assert {run.epochs for run in runs} == {1}
    assert all("embedded_in" in catalogue[run.dataset] for run in runs)


# --- CI ------------------------------------------------------------------------------------------------------------


def test_ci_runs_the_repositorys_own_script_on_the_supported_versions_and_may_only_read():
    ci = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "ci.yml").read_text())
    steps = [step for job in ci["jobs"].values() for step in job["steps"]]
    versions, script = (step["run"] for step in steps if "run" in step)
    assert script == ".ci/run" and os.access(REPOSITORY / script, os.X_OK)
    command = versions.partition(" >>")[0].split()
    pythons = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert pythons == 'pythons=["3.11", "3.12", "3.13", "3.14"]\n'
    assert ci["permissions"] == {"contents": "read"} and not any("permissions" in job for job in ci["jobs"].values())
    actions = [step["uses"] for step in steps if "uses" in step]
    assert len(actions) == 3
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in actions), "they are pinned"
