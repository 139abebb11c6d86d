"""What a person reads when a config is wrong: one line for each mistake, which says where, what, and what is allowed.

Nothing that is wrong may load, and nothing may end in a traceback.
"""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trainmark.config import checks
from trainmark.config.load import load_config
from trainmark.errors import ConfigError
from trainmark.networks.graph import Graph
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import InputTransform, Optimizer

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def message_of(*texts, overrides=None):
    """What is said of config files of these texts, a.yaml, b.yaml, ..."""
    files = [Path(f"{letter}.yaml") for letter, _ in zip("ab", texts, strict=False)]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_config(files, overrides)
    return str(caught.value)


def assert_says(message, *expected):
    """The message has these lines and no other. "…" stands for any words; a hint that is not expected breaks a line."""
    lines = message.splitlines()
    assert len(lines) == len(expected), message
    for line, words in zip(lines, expected, strict=True):
        parts = map(re.escape, re.split(" ?… ?", words))
        assert re.search(".*".join(parts), line), f"{line}\ndoes not say\n{words}"
        assert ("did you mean" in line, "; write [" in line) == (words.endswith("?"), "; write [" in words), line


def experiment(keys):
    return f"experiments:\n  e: {{{keys}}}\n"


def dataset(keys):
    return f"prepare: [mine]\ndatasets:\n  mine: {{{keys}}}\n"


# --- what is not YAML ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1]\nb: 1\na: [2]", "a.yaml, line 3: found the key 'a' twice (first in line 1); allowed: each key once"),
        ("a: &a {}\nb:\n  <<: *a\n  x: 6\n  x: 7", "a.yaml, line 5: found the key 'x' twice (first in line 4)"),
        ("e: !!python/object/apply:os.system ['touch owned']", "a.yaml, line 1: could not determine a constructor"),
        ("e:\n  a: 2017-13-45", "a.yaml: not valid YAML (month must be in 1..12)"),
        ("a:\n\te: {}", "a.yaml, line 2: found character '\\t'"),
        ("a: {{ epochs }}", "a.yaml, line 1: found unhashable key"),
        ("a: 1\n---\nb: 1", "a.yaml, line 2: but found another document"),
        ("- a\n- b", "a.yaml: found a list at the top; allowed: a mapping"),
        ("[" * 600, "a.yaml: not valid YAML"),
    ],
)
def test_what_is_no_plain_yaml(text, expected):
    assert_says(message_of(text), expected)
    assert not Path("owned").exists(), "a tag runs nothing"


def test_files_that_can_not_be_read():
    Path("latin.yaml").write_bytes(b"experiments: {e: {description: caf\xe9}}\n")
    Path("folder.yaml").mkdir()
    for name, why in {"latin": "not valid YAML", "none": "can't be read (No such", "folder": "can't be read"}.items():
        with pytest.raises(ConfigError, match=re.escape(f"{name}.yaml: {why}")):
            load_config([Path(f"{name}.yaml")])


# --- what the schema refuses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("experiment: {}\nexperiments: {e: {}}", "a.yaml, line 1: experiment: unknown key; … mean experiments?"),
        ("mirror: m", "a.yaml: top level: lacks the key experiments or prepare; allowed: one of them, or both"),
        ("experiments:\n  e:", "line 2: experiments.e: found nothing (null); allowed: a mapping"),
        ("prepare: [zebra]", "prepare[0]: found 'zebra' (text); allowed: digits, "),
        ("prepare: [mnist, mnist]", "prepare: found 'mnist' (text) twice; allowed: each value once"),
        ("offline: 'yes'\nprepare: [mnist]", "offline: found 'yes' (text); allowed: true or false"),
        ("experiments: {My Run: {}}", "found the name 'My Run' (text); allowed: text of lower-case letters, digits"),
        ("experiments: {2017: {}}", "found the name 2017 (a whole number); allowed: text"),
        (experiment("input: {sclae: 1}"), "e.input.sclae: unknown key; allowed: scale, … did you mean scale?"),
        (experiment("epochs: 10"), "e.epochs: found 10 (a whole number); allowed: a list … 1 or more; write [10]"),
        (experiment("epochs: [1, 0]"), "e.epochs[1]: found 0 (a whole number); allowed: a whole number, 1 or more"),
        (experiment("epochs: []"), "e.epochs: found an empty list; allowed"),
        (experiment("repeats: 3.0"), "e.repeats: found 3.0 (a number); allowed: a whole number, 1 to 10000"),
        (experiment("input: {scale: 1e-3}"), "found '1e-3' (text); … needs a point before it and a sign, as in 1.0e-3"),
        (experiment("input: {scale: .nan}"), "e.input.scale: found .nan (no finite number)"),
        (experiment(f"input: {{scale: 1{'0' * 400}}}"), f"e.input.scale: found 1{'0' * 55}...0 (a whole number)"),
        (experiment("input: {crop: [28]}"), "e.input.crop: found [28] (a list); allowed: "),
        (experiment("frameworks: chainer"), "e.frameworks: found 'chainer' (text); …; write [chainer]"),
        (experiment("frameworks: [pytorch]"), "e.frameworks[0]: found 'pytorch' (text); … did you mean torch?"),
        (experiment("devices: [cpu, cuda]"), "e.devices[1]: found 'cuda' (text); … did you mean gpu?"),
        (experiment("devices: [auto]"), "e.devices[0]: found 'auto' (text); … without a list"),
        (experiment("batch_size: ful"), "e.batch_size: found 'ful' (text); … did you mean full?"),
        (experiment("workers: [5000]"), "e.workers[0]: found 5000 (a whole number); allowed: … 1 to 4096"),
        (experiment("optimizer: {rule: momentum-sgd}"), "optimizer.rule: found … did you mean momentum_sgd?"),
        (experiment("optimizer: {momentum: 1}"), "e.optimizer.momentum: found 1 … above 0 and below 1"),
        ("claims: [{}]\nexperiments: {e: {}}", "claims[0]: lacks the key says; allowed: the claim in words"),
        # --- variants
        (experiment("variants: {A: {}, b: {}}"), "e.variants: found the name 'A' (text)"),
        (experiment("variants: {a: {epochs: [3]}, b: {}}"), "variants.a.epochs: unknown key; allowed: batch_size"),
        (experiment("variants: {a: {workers: [0]}, b: {}}"), "e.variants.a.workers[0]: found 0"),
        (experiment("grid: {learning_rat: [1, 2]}"), "e.grid.learning_rat: unknown key; … did you mean learning_rate?"),
        (experiment("grid: {crop: [[28, 28], null]}"), "e.grid.crop: unknown key; allowed: batch_size, dropout"),
        (experiment("grid: {batch_size: [32]}"), "e.grid.batch_size: found [32] (a list); allowed: … two or more"),
        (experiment("grid: {learning_rate: [1, 1.0]}"), "e.grid.learning_rate: found 1.0 (a number) twice"),
        (experiment("grid: {batch_size: [32, ful]}"), "e.grid.batch_size[1]: found 'ful' (text); … did you mean full?"),
        # --- entries of the catalogue
        (dataset("title: T, format: idxx"), "mine.format: found 'idxx' (text); … did you mean idx?"),
        (dataset("title: T, format: image_folder"), "mine: lacks the key files or folder; allowed: one"),
        (dataset("title: T, format: image_folder, folder: f, vocabulary_size: 9"), "vocabulary_size: unknown key"),
        (dataset("title: T, format: image_folder, folder: f, root: a/.."), "root: found 'a/..' (text); …without .."),
        ("prepare: [imdb]\ndatasets: {imdb: {sequence_lenght: 8}}", "unknown key; … did you mean sequence_length?"),
    ],
)
def test_what_the_schema_refuses(text, expected):
    assert_says(message_of(text), expected)


FILE = {"name": "a.gz", "sha256": "a" * 64, "urls": ["https://example.org/a.gz"]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"urls": None}, ": lacks the key urls; allowed"),
        ({"sha256": "ABC"}, ".sha256: found 'ABC' (text); allowed: 64 hexadecimal digits"),
        ({"md5": "a" * 32}, ": found both sha256 and md5; allowed: one of them"),
        ({"sha256": None}, ": lacks the key sha256 or md5; allowed: one of them, or none for a file://"),
        ({"name": "../x"}, ".name: found '../x' (text); allowed: a plain file name"),
        ({"name": "a.gz\n"}, r".name: found 'a.gz\n' (text)"),
        ({"urls": ["https://me:pa@ss@example.org/a.gz"]}, ".urls[0]: found 'https://...example.org/a.gz' (text)"),
        ({"urls": ["https://host/a?sig=secret"]}, ".urls[0]: found 'https://host/a?...' (text); … goes into mirror"),
    ],
)
def test_a_file_of_a_dataset(changes, expected):
    file = {key: value for key, value in (FILE | changes).items() if value is not None}
    overrides = {"prepare": ["imdb"], "datasets": {"imdb": {"files": [file]}}}
    assert_says(message_of(overrides=overrides), f"--config: datasets.imdb.files[0]{expected}")


# --- what does not fit each other ---------------------------------------------------------------------------------

PICTURES = """datasets:
  rgb:
    {title: P, format: synthetic, image_shape: [3, 224, 224], classes: 10, seed: 1, samples: {train: 64, test: 8}}
"""
FLUX = "recipes: [mnist-mlp-flux], "
SUBSET = "title: T, format: class_subset, seed: 1, "
ENCODED = "prepare: [d]\ndatasets: {d: {title: T, format: image_folder, folder: /tmp, encoding: %s}}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (ENCODED % "cp-437", "datasets.d.encoding: found cp-437; allowed: a text encoding of Python, such as cp437"),
        (ENCODED % "utf-16", "datasets.d.encoding: found utf-16; allowed: "),
        (ENCODED % "rot13", "datasets.d.encoding: found rot13; allowed: "),
        # --- recipes, datasets and the input transform
        (
            experiment("input: {crop: [24, 24]}"),
            "e.input.crop: the recipe mnist-mlp-keras does not fit the dataset digits: it takes inputs of 1 x 28 x 28 "
            "(channels x height x width), but gets 1 x 24 x 24; allowed: another recipe, or another input.crop",
        ),
        (experiment("datasets: [mnist], input: {crop: [32, 28]}"), "e.input.crop: … crops 32 x 28 … of 28 x 28"),
        (experiment("datasets: [imdb]"), "e.recipes[0]: … 400 token ids; allowed: a dataset that fits (digits"),
        (experiment("recipes: [imdb-cnn], datasets: [mnist]"), "e.recipes[0]: … 400 token ids … (imdb, imdb-keras)"),
        (experiment("recipes: [imagenet-alex], datasets: [mnist]"), "e.recipes[0]: … crops 227 x 227 … of 28 x 28"),
        (
            experiment("recipes: [imdb-cnn], datasets: [imdb], input: {scale: 1}"),
            "e.input: found {scale: 1} (a mapping), and the recipe imdb-cnn takes token ids … allowed: no input",
        ),
        (experiment("input: {random_crop: true}"), "e.input.random_crop: … whole images; allowed: false"),
        (experiment("loader: {jobs: 4}"), "e.loader: has no effect, since the experiment streams no images; allowed"),
        (experiment(f"{FLUX}dropout: 0.5"), "e.dropout: found 0.5 (a number), and … no dropout layers; allowed: null"),
        (experiment("batch_size: 1439"), "e.batch_size: found 1439, but … 1438 training samples; allowed: full, or"),
        # --- optimizers and schedules
        (
            experiment("optimizer: {rule: adam, momentum: 0.9}"),
            "e.optimizer.momentum: found 0.9 (a number), but the rule adam has no momentum; allowed: learning_rate, ",
        ),
        (experiment("optimizer: {beta_1: 0.5}"), "but the rule rmsprop of the recipe mnist-mlp-keras has no beta_1"),
        (experiment("learning_rate_schedule: {factor: 0.5}"), "learning_rate_schedule.factor: has no effect without"),
        (experiment("learning_rate_schedule: {warmup_epochs: 5}"), "warmup_epochs: has no effect on an unscaled rate"),
        (
            experiment("optimizer: {rule: rmsprop_warmup}, learning_rate_schedule: {milestones: [30]}"),
            "e.learning_rate_schedule: … has a schedule of its own; allowed: no learning_rate_schedule",
        ),
        (experiment("epochs: [20, 25], optimizer_restarts: 9"), "25 epochs have no 10 equal parts; allowed: epochs"),
        # --- trainers
        (experiment("loops: [tuned], frameworks: [keras-torch]"), "e.loops[0]: … no tuned loop for keras-torch"),
        (experiment("baseline: torch on tpu"), "e.baseline: found 'torch on tpu' (text); allowed: null, chainer"),
        (
            "figures: {trainers: [chainer-tpu]}\nexperiments: {e: {frameworks: [chainer]}}",
            "figures.trainers[0]: found 'chainer-tpu' (text); allowed: chainer-cpu, chainer-gpu",
        ),
        (experiment(f"{FLUX}workers: [2], frameworks: [keras-tensorflow]"), "keras-tensorflow has no engine"),
        (experiment(f"{FLUX}workers: [2], frameworks: [chainer], loops: [tuned]"), "only in the loop stock"),
        (experiment(f"{FLUX}workers: [8], frameworks: [torch], batch_size: 4"), "last batch has 2 samples … at most 2"),
        (
            PICTURES + experiment("workers: [8], frameworks: [flax], recipes: [imagenet-resnet50], datasets: [rgb]"),
            "e.workers[0]: … computes BatchNorm … allowed: 1, or the frameworks chainer, torch",
        ),
        # --- claims
        ("claims: [{says: S, at_most: 1}]\nexperiments: {e: {}}", "claims[0]: where is missing; allowed"),
        (
            "claims: [{says: S, at_most: 1, verdict: faster, where: {epochs: 1}}]\nexperiments: {e: {epochs: [1]}}",
            "claims[0]: allowed: at_least, at_most or both; or verdict; or pairs",
        ),
        (
            "claims: [{says: S, at_least: 2, at_most: 1, where: {epochs: 1}}]\nexperiments: {e: {epochs: [1]}}",
            "claims[0].at_least: found 2, which is more than at_most",
        ),
        (
            "claims: [{says: S, at_most: 1, where: {framework: jax}}]\nexperiments: {e: {frameworks: [keras-jax]}}",
            "claims[0].where.framework: found 'jax' (text); allowed: keras-jax",
        ),
        (
            "claims: [{says: S, at_most: 1, where: {variant: b}}]\nexperiments: {e: {epochs: [1]}}",
            "claims[0].where.variant: found 'b' (text); allowed: nothing",
        ),
        (
            "claims: [{says: S, at_most: 1, where: {epochs: 9}}]\nexperiments: {e: {epochs: [1]}}",
            "claims[0].where.epochs: found 9 (a whole number); allowed: 1",
        ),
        (
            "claims: [{says: S, pairs: certified, where: {epochs: 1}}]\nexperiments: {e: {epochs: [1]}}",
            "claims[0].where.epochs: has no effect on pairs; allowed: experiment, recipe, dataset",
        ),
        # --- variants
        (experiment("variants: {a: {dropout: 0}}"), "e.variants: found one variant; allowed: two or more"),
        (experiment("variants: {a: {batch_size: 9000}, b: {}}"), "e.variants.a.batch_size: found 9000, but"),
        (experiment("grid: {batch_size: [9000, 8], dropout: [0, .1]}"), "e.grid.batch_size: found 9000, but"),
        (experiment("grid: {dropout: [null, .2]}"), "e.grid: dropout-0.2 is the same training as dropout-null"),
        (
            experiment("grid: {dropout: [0, .1]}, variants: {a: {}, b: {dropout: .3}}"),
            "e.grid: found grid and variants",
        ),
        (experiment("variants: {a: {dropout: .2}, b: {}}"), "e.variants.b: is the same training as a with the recipe"),
        (
            experiment("variants: {a: {}, b: {}}, commands: {c: {command: x, metrics: {format: chainer-log-report}}}"),
            "e.variants: has no effect on commands",
        ),
        # --- entries of the catalogue
        (dataset(f"{SUBSET}of: mnisst, classes: 2"), "mine.of: found 'mnisst' (text), which is no dataset; … mnist?"),
        (dataset(f"{SUBSET}of: mini-imagenet-8, classes: 2"), "is a part of another dataset itself; allowed: digits"),
        (dataset(f"{SUBSET}of: mnist, classes: 11"), "mine.classes: found 11; … the 10 classes of mnist"),
        (dataset(f"{SUBSET}of: mnist, classes: 2, packed: true"), "mine.packed: … mnist is an array already"),
        (
            dataset("title: T, format: image_folder, folder: f, classes: 2, class_names: [a, b, c]"),
            "mine.class_names: found 3 class_names and 2 classes; allowed: as many names as classes",
        ),
        (
            "prepare: [mnist]\ndatasets: {mnist: {format: npz}}",
            "mnist.format: … allowed: idx, or another name",
        ),
    ],
)
def test_what_does_not_fit(text, expected):
    assert_says(message_of(text), expected)


# --- commands -----------------------------------------------------------------------------------------------------

METRICS = {"format": "regex", "pattern": r"loss (?P<loss>\S+)"}


def of_shell(line, shown):
    return {"command": line}, f"command: found {shown}, and a command runs without a shell; allowed: "


def of_metrics(sentence, **metrics):
    return {"metrics": metrics}, f"metrics.{sentence}"


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ({"command": "train {epoch}"}, "command: found {epoch}; allowed: {epochs}, {device_flag}"),
        ({"variables": {"A": "${HOME}/x"}}, "variables.A: found ${HOME}, which no shell"),
        ({"command": "sh -c 'a"}, "command: its quotes can't be read (no closing quotation)"),
        of_shell("cd x && python t.py {epochs}", "cd, &&"),
        of_shell("python t.py < in > log 2>&1", "<, >, 2>&1"),
        of_shell("~/bin/python $HOME/x ${HOME} `pwd` $(pwd)", "`, $HOME, ${HOME}, $(, ~/bin/python"),
        of_shell("python t.py data/*.csv # all", "*, #"),
        (
            {"command": "python t.py {device_flag}", "device_flag": {"cpu": "", "gpu": "| tee log"}},
            "device_flag.gpu: found |, and a command",
        ),
        ({"environment": "chainer", "container": "b.sif"}, "container: found both environment and container"),
        ({"environment": "chainr"}, "environment: found 'chainr' (text), which is not there; allowed: "),
        ({"container": "docker://host/image:latest"}, "container: found 'docker://host/image:latest' (text)"),
        ({"files": [{"path": "../a", "urls": ["https://host/a"], "sha256": "a" * 64}]}, "files[0].path: found '../a'"),
        (
            {"files": [{"path": "a", "urls": ["https://h/a"], "sha256": "a" * 64}], "metrics": METRICS | {"file": "a"}},
            "metrics.file: found a, which is one of files; allowed: a file that the command writes",
        ),
        ({"files": [{"path": "a", "urls": ["https://h/a"]}]}, "files[0]: lacks the key sha256; allowed: 64"),
        ({"files": 2 * [{"path": "a", "urls": ["https://h/a"], "sha256": "a" * 64}]}, "files: found the path a twice"),
        of_metrics("pattern: the format regex needs it", format="regex"),
        of_metrics("pattern: can't be read (missing )", format="regex", pattern="(?P<loss>"),
        of_metrics("pattern: found the group lose; allowed", format="regex", pattern="(?P<lose>a)"),
        of_metrics("pattern: its groups name no metric", format="regex", pattern="a"),
        of_metrics("columns: the format csv needs the names of its columns", format="csv", file="a"),
        of_metrics("file: the format keras-csv-logger is read from a file", format="keras-csv-logger"),
        of_metrics("file: found '../log'", format="csv", file="../log"),
        of_metrics(
            "columns.test_loss: found l, which is loss, too; allowed: a column of its own for each",
            format="json-lines",
            columns={"loss": "l", "test_loss": "l"},
        ),
        of_metrics(
            "columns: found both seconds and elapsed_seconds; allowed: one of them",
            format="json-lines",
            columns={"loss": "l", "seconds": "s", "elapsed_seconds": "t"},
        ),
    ],
)
def test_a_command(command, expected):
    commands = {"commands": {"c": {"command": "python train.py", "metrics": METRICS} | command}}
    message = message_of(overrides={"experiments": {"e": commands}})
    assert_says(message, f"--config: experiments.e.commands.c.{expected}")


# --- which file and line are to blame -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "overrides", "expected"),
    [
        ([], {}, ["no config file: top level: lacks the key experiments or prepare"]),
        (["mirror: m"], {"mirror": "n"}, ["a.yaml: top level: lacks the key experiments"]),  # what all lack
        (
            ["experiments: {e: {input: {crop: [24, 24]}}}", "experiments: {e: {recipes: [mnist-mlp-flux]}}"],
            {},
            ["a.yaml, line 1: experiments.e.input.crop: … mnist-mlp-flux does not fit the dataset digits"],
        ),
        (
            ["experiments:\n e: {epochs: [1, -2],\n  repeat: 2}", "experiments: {e: {seed: -3}}"],
            {"experiments": {"e": {"repeats": 0}}},
            [
                "--config: experiments.e.repeats: found 0",
                "a.yaml, line 2: experiments.e.epochs[1]: found -2",
                "a.yaml, line 3: experiments.e.repeat: unknown key; … did you mean repeats?",
                "b.yaml, line 1: experiments.e.seed: found -3",
            ],
        ),
        (["experiments: {e: }", "experiments: {e: {epochs: [0]}}"], {}, ["b.yaml, line 1: experiments.e.epochs[0]"]),
        (
            [dataset("title: T, format: image_folder, folder: f, lists: 9"), "datasets: {mine: {classes: 3}}"],
            {},
            ["a.yaml, line 3: datasets.mine.lists: unknown key"],
        ),
    ],
)
def test_the_file_and_the_line(texts, overrides, expected):
    assert_says(message_of(*texts, overrides=overrides), *expected)


# --- the mirror ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mirror", "found"),
    [
        ("nowhere", "found nowhere, which is not an existing folder in {folder}; allowed: a folder, or a file://"),
        ("ftp://user:pw@example.org/data?sig=key", "found ftp://example.org/data, an address with an unknown scheme"),
    ],
)
def test_a_mirror_that_is_none(monkeypatch, mirror, found):
    expected = found.format(folder=Path.cwd())
    assert_says(message_of(f"mirror: {mirror}\nprepare: [mnist]"), f"a.yaml, line 1: mirror: {expected}")
    monkeypatch.setenv("TRAINMARK_MIRROR", mirror)
    assert_says(message_of("prepare: [mnist]"), f"TRAINMARK_MIRROR: {expected}")
    load_config([Path("a.yaml")], fetches=False)


# --- networks of one's own, and initial weights -------------------------------------------------------------------


def with_layer(op, **attributes):
    """A function that returns an architecture of one layer."""

    def architecture(input_shape, classes):
        graph = Graph((classes,))
        graph.add("out", op, **attributes)
        return graph.architecture("own")

    return architecture


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"architecture": with_layer("Linear")}, "layer 'out': unknown op 'Linear'; … did you mean Dense?"),
        ({"architecture": with_layer("Dense", out_features=3)}, "layer 'out': Dense has … did you mean units?"),
        ({"architecture": lambda shape: None}, "its network can't be built: TypeError: …, line"),
        ({"initializer": "xavier"}, "unknown initializer 'xavier'; known: lecun_normal"),
        ({"optimizer": Optimizer("adamw", 0.1)}, "unknown update rule 'adamw'; known: sgd … did you mean adam?"),
        (
            {"optimizer": Optimizer("sgd", 0.1, (("momentum", 0.9),))},
            "the rule sgd has learning_rate, and its",
        ),
        (
            {"optimizer": Optimizer("momentum_sgd", 0.1, (("momentun", 0.9),))},
            "the rule momentum_sgd has learning_rate, momentum, and its … did you mean momentum?",
        ),
        ({"optimizer": Optimizer("momentum_sgd", 0.1, ("momentum", 0.9))}, "found constants = …; allowed: pairs"),
        ({"optimizer": Optimizer("sgd", "0.1")}, "found learning_rate = '0.1' in its optimizer; allowed: a number"),
        ({"optimizer": Optimizer("sgd", lr=0.1)}, "Optimizer has no lr; allowed: rule"),
        ({"optimizer": Optimizer("sgd")}, "Optimizer lacks learning_rate"),
        ({"optimizer": "adam"}, "found optimizer = 'adam'; allowed: an Optimizer"),
        ({"input": InputTransform(random_flp=True)}, "InputTransform has no random_flp; … did you mean random_flip?"),
        ({"input": InputTransform(mean_window="left")}, "found mean_window = 'left' in its input; allowed: same or"),
        ({"batchsize": 5}, "Recipe has no batchsize; … did you mean batch_size?"),
        ({"batch_size": 0}, "found batch_size = 0; allowed: a whole number"),
        ({"evaluated_splits": ("test")}, "found evaluated_splits = 'test'; allowed: (\"test\",)"),
        ({"published_parameters": 5}, "its network has 25,450 parameters, and its published_parameters are 5"),
    ],
)
def test_a_recipe_that_can_not_be_trained(changes, why, monkeypatch):
    monkeypatch.setitem(RECIPES, "mnist-mlp-flux", replace(RECIPES["mnist-mlp-flux"], **changes))
    checks._recipe_problem.cache_clear()
    others = "workers: [2], variants: {a: {batch_size: 10}, b: {batch_size: 20}}"  # whose checks need the network
    message = message_of(experiment(f"recipes: [mnist-mlp-flux], datasets: [digits], {others}"))
    checks._recipe_problem.cache_clear()
    assert_says(message, f"recipes[0]: the recipe mnist-mlp-flux: {why}")


def test_initial_weights_that_no_run_can_start_from():
    keys = experiment("recipes: [mnist-mlp-flux], datasets: [digits], initial_weights: weights.npz")
    allowed = "allowed: weights.npz of a run of mnist-mlp-flux with 10 classes, in any framework, or null"
    assert_says(message_of(keys), f"found 'weights.npz' (text), a file that does not exist; {allowed}")
    np.savez("weights.npz", **{"dense1.kernel": np.zeros((784, 32))})
    assert_says(message_of(keys), "a file that is of another network than mlp-32: it lacks …; allowed")
