"""The workflow in a folder outside the repository, and as a module of another workflow."""

import re
import subprocess

import pytest
import yaml
from harness import REPOSITORY, copy_of_repository, environment, experiment_of, finish, record_file, snakemake

ONE_RUN = experiment_of(frameworks=["keras-jax"])
CONFIG = {"experiments": {"one": ONE_RUN}}
RUN = "one/mnist-mlp-flux/digits/keras-jax-cpu/epochs-1/repeat-1"
MODULE = """\
module trainmark:
    snakefile: "{snakefile}"
    config: {config}

use rule * from trainmark
"""


def write_workflow(folder, config=CONFIG, snakefile=REPOSITORY / "Snakefile", before="", after=""):
    """Write a Snakefile that uses trainmark as a module, and return its folder."""
    folder.mkdir(exist_ok=True)
    module = MODULE.format(snakefile=snakefile, config=config)
    (folder / "Snakefile").write_text(f"{before}\n{module}\n{after}\n")
    return folder


def planned_runs(process, rule="train"):
    """How many runs a dry run would train."""
    assert process.returncode == 0, process.printed[-3000:]
    (count,) = set(re.findall(rf"^{rule} +(\d+)$", process.printed, re.MULTILINE))  # printed before and after the jobs
    return int(count)


def test_the_default_target_of_the_snakefile_in_the_folder_workflow_is_everything(tmp_path):
    command = ["snakemake", "-n", "--snakefile", str(REPOSITORY / "workflow" / "Snakefile")]
    process = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True)
    assert re.search(r"^train +32$", process.stdout, re.MULTILINE)
    assert re.search(r"^report +1$", process.stdout, re.MULTILINE)


@pytest.mark.faults
def test_a_module_runs_and_stays_valid_when_it_is_moved_with_the_clone(tmp_path):
    """The start comes before the main workflow's own handler, which is defined after the module; the plan shows it."""
    clone = copy_of_repository(tmp_path / "here" / "clone")
    handler = 'onstart:\n    print("own handler")\n'
    folder = write_workflow(tmp_path / "here" / "mine", snakefile="../clone/Snakefile", after=handler)
    printed = finish(folder, "--until", "train", "--cores", "2")
    assert "own handler" in printed
    assert record_file(folder, RUN).exists() and (folder / "results/plan.json").exists()
    clone.parent.rename(tmp_path / "there")
    again = snakemake(tmp_path / "there" / "mine", "--until", "train", "-n")
    assert re.search(r"^total +0$", again.printed, re.MULTILINE), again.printed[-3000:]


@pytest.mark.parametrize("handler", ["", "onstart:\n    trainmark.onstart()\n"], ids=["without a handler", "with one"])
def test_a_module_starts_once(tmp_path, handler):
    """Two starts would be refused: the first holds the lock on the folder."""
    folder = write_workflow(tmp_path, after=handler)
    finish(folder, "--until", "download_dataset", "--cores", "1")
    assert (folder / "results" / "plan.json").exists()


def test_a_modules_rules_can_be_renamed(tmp_path):
    """Snakemake would warn if the local rules were listed by name, since the names change."""
    folder = write_workflow(tmp_path, snakefile=REPOSITORY / "workflow" / "Snakefile")
    text = (folder / "Snakefile").read_text().replace("from trainmark", "from trainmark as bench_*")
    (folder / "Snakefile").write_text(
        text + "\nrule all:\n    input: rules.bench_all.input\n    default_target: True\n"
    )
    process = snakemake(folder, "-n")
    assert planned_runs(process, "bench_train") == 1
    assert "localrules directive" not in process.printed


def test_a_module_takes_its_part_of_the_config(tmp_path):
    """Values of the command line reach it by way of the main workflow's config."""
    write_workflow(tmp_path, config='config["trainmark"]', before='configfile: "mine.yaml"\n')
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump({"samples": "samples.tsv", "trainmark": CONFIG}))
    given = "trainmark={experiments: {one: {recipes: [mnist-mlp-flux, mnist-mlp-keras]}}}"
    assert planned_runs(snakemake(tmp_path, "-n", "--config", given)) == 2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"experiments": {"one": {"epocs": [1]}}},
            "config of the module trainmark: experiments.one.epocs: unknown key; allowed: .*; did you mean epochs?",
        ),
        (
            f'{CONFIG}\n    prefix: "mine"',
            "the module trainmark has a prefix or replace_prefix, which trainmark does not",
        ),
    ],
    ids=["unknown key", "prefix"],
)
def test_what_a_module_refuses(tmp_path, config, message):
    process = snakemake(write_workflow(tmp_path, config), "-n")
    assert process.returncode == 1
    assert re.search(message, process.printed), process.printed[-3000:]
    assert "Traceback" not in process.printed


def test_a_module_that_is_no_clone_on_this_machine_is_refused(tmp_path):
    """Snakemake reads the rules from git, here from a folder of a local repository, but the scripts are not there."""
    hosted = tmp_path / "hosted"
    copy_of_repository(hosted / "trainmark")
    for command in ("init", "add .", "-c user.name=test -c user.email=test@test.invalid commit --message=all"):
        subprocess.run(["git", *command.split()], cwd=hosted, capture_output=True, check=True)
    folder = write_workflow(tmp_path / "mine")
    location = f'gitfile("{hosted}", path="trainmark/Snakefile", ref="HEAD")'
    text = (folder / "Snakefile").read_text().replace(f'"{REPOSITORY / "Snakefile"}"', location)
    (folder / "Snakefile").write_text(text)
    process = snakemake(folder, "-n")
    assert process.returncode == 1
    assert "trainmark's scripts are not on this machine: clone the repository" in process.printed
    assert "Traceback" not in process.printed
