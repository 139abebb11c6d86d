"""Commands in a config: their defaults, and one sentence for each mistake."""

import pytest

from trainmark.config.load import load_config
from trainmark.errors import ConfigError

METRICS = {"format": "regex", "pattern": r"loss (?P<loss>\S+)"}


def load(command, **experiment):
    commands = {"commands": {"c": {"command": "python train.py", "metrics": METRICS} | command}}
    return load_config([], {"experiments": {"e": commands | experiment}})[0]["experiments"]["e"]


def test_an_experiment_of_commands_alone_has_no_recipe():
    experiment = load({})
    assert [experiment[key] for key in ("recipes", "datasets", "frameworks")] == [[], [], []]
    assert experiment["commands"]["c"]["device_flag"] == {"cpu": "", "gpu": ""}
    assert load({}, frameworks=["chainer"])["recipes"] == ["mnist-mlp-keras"]


def file(path="a", urls=("https://host/a",)):
    return {"path": path, "urls": list(urls), "sha256": "a" * 64}


def regex(pattern, **keys):
    return {"format": "regex", "pattern": pattern, **keys}


WRONG = {
    "no command": ({"command": None}, "command: found nothing (null); allowed: text"),
    "unknown placeholder": ({"command": "train {epoch}"}, "command: found {epoch}; allowed: {epochs}, {device_flag}"),
    "placeholder in a variable": ({"variables": {"A": "{gpu}"}}, "variables.A: found {gpu}; allowed: {epochs}"),
    "open quote": ({"command": "sh -c 'a"}, "command: its quotes can't be read (no closing quotation)"),
    **{
        f"of a shell: {line}": (
            {"command": line},
            f"command: found {shown}, and a command runs without a shell; allowed: ",
        )
        for line, shown in [
            ("cd x && python t.py {epochs}", "cd, &&"),
            ("FOO='a b' python t.py", "FOO="),
            ("python t.py | tee log", "|"),
            ("python t.py > log 2>&1", ">, 2>&1"),
            ("python t.py < in &> log &", "<, &>, &"),
            ("a; b || c", ";, ||"),
            ("python t.py $(pwd) `pwd`", "`, $("),
            ("~/bin/python ~me/t.py $HOME/x ${HOME}", "$HOME, ${HOME}, ~/bin/python, ~me/t.py"),
            ("source bin/activate", "source"),
            ("python t.py data/*.csv # all", "*, #"),
            ("python a.py\npython b.py", "a line break"),
            ("python t.py \\\n -e 3", "a line break"),
        ]
    },
    "what to write": ({"command": "A=1 b"}, "command: found A=, and a command runs without a shell; allowed: the key"),
    "flag of a shell": (
        {"command": "python t.py {device_flag}", "device_flag": {"cpu": "", "gpu": "| tee log"}},
        "device_flag.gpu: found |, and a command",
    ),
    "open quote in a flag": (
        {"command": "python t.py {device_flag}", "device_flag": {"cpu": "'", "gpu": ""}},
        "device_flag.cpu: its quotes can't be read",
    ),
    "variable in a variable": ({"variables": {"A": "${HOME}/x"}}, "variables.A: found ${HOME}, which no shell"),
    "spaces alone": ({"command": "  "}, "command: found no word"),
    "two environments": ({"environment": "chainer", "container": "b.sif"}, "container: found both"),
    "no such environment": ({"environment": "chainr"}, "environment: found 'chainr' (text), which is not there"),
    "no digest": ({"container": "docker://host/image:latest"}, "container: found 'docker://host/image:latest' (text)"),
    "path that leaves": ({"files": [file("../a")]}, "files[0].path: found '../a' (text); allowed: a path in"),
    "absolute path": ({"files": [file("/etc/passwd")]}, "files[0].path: found '/etc/passwd' (text); allowed: a path"),
    "path twice": ({"files": [file(), file()]}, "files: found the path a twice"),
    "no checksum": ({"files": [{"path": "a", "urls": ["b"]}]}, "files[0]: lacks the key sha256"),
    "secret": ({"files": [file(urls=["https://me:key@host/a"])]}, "files[0].urls[0]: found 'https://...host/a' (text)"),
    "file that leaves": ({"metrics": {"format": "csv", "file": "../log"}}, "metrics.file: found '../log'"),
    **{
        f"metrics: {sentence}": ({"metrics": metrics}, f"metrics.{sentence}")
        for metrics, sentence in [
            ({"format": "regex"}, "pattern: the format regex needs it"),
            (regex("(?P<loss>"), "pattern: can't be read (missing )"),
            (regex("(?P<lose>a)"), "pattern: found the group lose; allowed"),
            (regex("a"), "pattern: its groups name no metric"),
            (regex("(?P<loss>a)", columns={"loss": "l"}), "columns: the format regex has no columns"),
            (regex("(?P<seconds>a) (?P<elapsed_seconds>b)"), "pattern: found both seconds and elapsed_seconds"),
            ({"format": "csv", "file": "a", "pattern": "a", "columns": {"loss": "l"}}, "pattern: the format csv"),
            ({"format": "csv", "file": "a"}, "columns: the format csv needs the names of its columns"),
            ({"format": "keras-csv-logger"}, "file: the format keras-csv-logger is read from a file"),
            (
                {"format": "json-lines", "columns": {"loss": "l", "seconds": "s", "elapsed_seconds": "t"}},
                "columns: found both seconds and elapsed_seconds; allowed: one of them",
            ),
            (
                {"format": "tensorboard", "file": "runs", "columns": {"loss": "l", "seconds": "s"}},
                "columns.seconds: the format tensorboard has its own epochs and times",
            ),
        ]
    },
}


@pytest.mark.parametrize(
    "line",
    [
        "sh -c 'cd x && exec python t.py {epochs} > ${HOME}/log; `a` | $(b)'",
        'sh -c "cd $x && exec python t.py"',
        "python -c 'print(1 > 2, 3 * 4)'",
        r"python t.py a\;b \$HOME 'it'\''s;'",
        "python t.py --lr=1e-3 x=1 a~b#c foo$ 50% @x ! ? [1,2]",
        "env FOO=1 ./cd",
        "python t.py\n  --epochs {epochs}\n--x\n",
    ],
)
def test_a_line_that_needs_no_shell_is_allowed(line):
    assert load({"command": line, "variables": {"A": "a$; b | c"}})["commands"]["c"]["command"] == line


def test_the_folder_of_an_environment_may_be_in_the_home_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").mkdir()
    assert load({"environment": "~/x"})["commands"]["c"]["environment"] == str(tmp_path / "x")


def test_commands_alone_need_none_of_the_keys_of_recipes():
    with pytest.raises(ConfigError, match="for commands alone, leave out recipes, datasets and frameworks"):
        load({}, datasets=[])


@pytest.mark.parametrize("wrong", WRONG)
def test_a_mistake_is_one_sentence(wrong):
    command, sentence = WRONG[wrong]
    with pytest.raises(ConfigError) as caught:
        load(command)
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"--config: experiments.e.commands.c.{sentence}")
