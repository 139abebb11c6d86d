"""new_experiment.py writes a config that the workflow takes, from options or from answers, or says why not."""

import os
import pty
import re
import subprocess
import sys

import pytest
import yaml
from harness import REPOSITORY, environment

from trainmark.config.load import load_config, shipped_files

SCRIPT = str(REPOSITORY / "workflow" / "scripts" / "new_experiment.py")
OPTIONS = "--name quick --recipes mnist-mlp-flux --frameworks keras-jax,chainer --devices cpu --epochs 1 20 --repeats 1"
EXPERIMENT = {
    "recipes": ["mnist-mlp-flux"], "datasets": ["digits"], "frameworks": ["keras-jax", "chainer"], "devices": ["cpu"],
    "epochs": [1, 20], "repeats": 1,
}  # fmt: skip


def run(folder, *options):
    """Run the script with options and without a terminal."""
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def answer(folder, *answers):
    """Run the script on a terminal with these answers; return its exit status and what the terminal shows."""
    terminal, its_end = pty.openpty()
    os.write(terminal, "".join(f"{line}\n" for line in answers).encode() + b"\x04")  # then Ctrl-D
    done = subprocess.run(
        [sys.executable, SCRIPT], cwd=folder, stdin=its_end, capture_output=True, text=True, check=False
    )
    os.close(its_end)
    os.close(terminal)
    return done


def comment_above(text, key):
    """The words of the comment above a key of an experiment."""
    (lines,) = re.findall(rf"((?:^    # .*\n)+)    {key}:", text, re.MULTILINE)
    return " ".join(lines.replace("#", "").split())


def test_options_become_a_config_with_the_schemas_descriptions(tmp_path):
    done = run(tmp_path, *OPTIONS.split())
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "quick.yaml").read_text()
    assert yaml.safe_load(text) == {"experiments": {"quick": EXPERIMENT}}
    assert load_config([tmp_path / "quick.yaml"])[0]["experiments"]["quick"].items() >= EXPERIMENT.items()
    keys = shipped_files()[0]["$defs"]["experiment"]["properties"]
    for key in EXPERIMENT:
        assert comment_above(text, key).startswith(" ".join(keys[key]["description"].split()))
    assert max(map(len, text.splitlines())) <= 120


def test_the_two_commands_it_prints_work(tmp_path):
    done = run(tmp_path, *OPTIONS.split(), "--out", "it's mine.yaml")
    check, start = done.stdout.splitlines()[-2:]
    for command, expected in ((check, "4 runs in all"), (f"{start} -n --workflow-profile none", "train   ")):
        ran = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        assert expected in ran.stdout


def test_in_the_clone_the_commands_are_short(tmp_path):
    done = run(REPOSITORY, "--out", str(tmp_path / "my.yaml"))
    check, start = done.stdout.splitlines()[-2:]
    assert check == f"  python workflow/scripts/validate.py {tmp_path}/my.yaml"
    assert start == f"  snakemake --cores 4 --resources gpu=1 --configfile {tmp_path}/my.yaml"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--name e --frameworks keras-jx --repeats 0",
            "keras-torch, torch; did you mean keras-jax?\ne.yaml: experiments.e.repeats: found 0 (a whole number)",
        ),
        ("--out there/e.yaml", "there/e.yaml: not written (No such file or directory); choose another file name"),
        ("", "no options were given, and there is no terminal to ask on"),
    ],
)
def test_what_it_refuses(tmp_path, options, message):
    done = run(tmp_path, *options.split())
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_enter_takes_the_defaults_which_are_the_schemas_and_a_file_that_exists_is_kept(tmp_path):
    done = answer(tmp_path, *[""] * 8)
    assert done.returncode == 0, done.stderr
    assert "my-experiment.yaml is written." in done.stdout
    file = tmp_path / "my-experiment.yaml"
    assert load_config([file]) == load_config([], {"experiments": {"my-experiment": {}}})
    file.write_text("mine")
    done = run(tmp_path, "--out", "my-experiment.yaml")
    assert done.stderr == "ConfigError: my-experiment.yaml: not written (File exists); choose another file name\n"
    assert (done.returncode, file.read_text()) == (1, "mine")


def test_a_wrong_answer_is_asked_for_again_and_the_others_are_kept(tmp_path):
    first = ["quick", "mnist-mlp-flux", "", "keras-jx, chainer", "cpu", "1 20", "1", ""]
    done = answer(tmp_path, *first, "", "", "", "keras-jax chainer", "", "", "", "")
    assert done.returncode == 0, done.stderr
    assert "did you mean keras-jax?" in done.stdout
    assert yaml.safe_load((tmp_path / "quick.yaml").read_text()) == {"experiments": {"quick": EXPERIMENT}}


def test_the_end_of_input_ends_it_without_a_word(tmp_path):
    done = answer(tmp_path, "quick")
    assert (done.returncode, done.stderr) == (130, "")
    assert list(tmp_path.iterdir()) == []
