"""What a person reads when a config is wrong: where, what was found and, where there is one, the nearest spelling.

A message is one line a finding. Nothing that is wrong may load, and nothing may end in a traceback. Some lines here and
in test_broken_catalogues.py are held word for word; in the others "…" stands for what is allowed, which test_schema.py
holds to the schema.
"""

import errno
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from config_messages import assert_says, experiment, message_of, write

from trainmark.config import fit_check
from trainmark.config.load import load_config
from trainmark.frameworks.registry import known_frameworks
from trainmark.networks.graph import Graph
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.recipe import Optimizer

pytestmark = pytest.mark.usefixtures("in_tmp_path")

ALL = ", ".join(known_frameworks())
TUNED = ", ".join(name for name, framework in known_frameworks().items() if framework.tuning)
LACKS_BOTH = "top level: lacks the key experiments or prepare; …"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # --- unknown keys
        ("input: {sclae: 1}", "input.sclae: unknown key; allowed: scale, …, random_flip; did you mean scale?"),
        # --- the wrong type
        ("epochs: 10", "epochs: found 10 (a whole number); allowed: a list of whole numbers, 1 or more; write [10]"),
        ("epochs: '[1, 2]'", "epochs: found '[1, 2]' (text); …; write it without quotes"),
        ("epochs: '[1'", "epochs: found '[1' (text); …"),  # no YAML without its quotes
        ("epochs: [1e1]", "epochs[0]: found '1e1' (text); …"),  # text to YAML 1.1
        ("input: {scale: 1e-3}", "input.scale: found '1e-3' (text); …; …needs a point before it and a sign…1.0e-3"),
        ("repeats: true", "repeats: found true (true or false); …"),
        ("input: {scale: true}", "input.scale: found true (true or false); …"),
        ("seed: null", "seed: found nothing (null); …; or leave the key out"),
        ("input: {scale: .nan}", "input.scale: found .nan (no finite number); …"),
        (f"input: {{scale: 1{'0' * 400}}}", f"input.scale: found 1{'0' * 55}...0 (a whole number); …"),
        ("repeats: 3.0", "repeats: found 3.0 (a number); …"),  # JSON Schema's own integer; no range's
        (f"epochs: [[{', '.join('1' * 40)}]]", f"epochs[0]: found [{'1, ' * 18}1...] (a list); …"),
        ("description: {a: [true, null], b c: 1.5}", "description: found {a: [true, null], 'b c': 1.5} (a mapping); …"),
        # --- unknown names
        ("frameworks: chainer", "frameworks: found 'chainer' (text); …; write [chainer]"),
        (
            "frameworks: [chainer, keras-tensorfow]",
            f"frameworks[1]: found 'keras-tensorfow' (text); allowed: {ALL}; did you mean keras-tensorflow?",
        ),
        ("frameworks: [Chainer]", "frameworks[0]: found 'Chainer' (text); …; did you mean chainer?"),
        # --- numbers out of range
        ("epochs: [10, 0]", "epochs[1]: found 0 (a whole number); allowed: …1 or more"),
        ("repeats: 0", "repeats: found 0 (a whole number); …"),
        ("repeats: 10001", "repeats: found 10001 (a whole number); …"),
        ("seed: -1", "seed: found -1 (a whole number); …"),
        ("input: {scale: 0}", "input.scale: found 0 (a whole number); …"),
        ("batch_size: 0", "batch_size: found 0 (a whole number); …"),
        ("batch_size: 1439", "batch_size: found 1439, but the dataset digits has 1438 training samples; …1 to 1438"),
        ("checkpoint_steps: 0", "checkpoint_steps: found 0 (a whole number); …"),
        ("target_accuracy: 95", "target_accuracy: found 95 (a whole number); …above 0, up to 1, or null"),
        ("batch_size: ful", "batch_size: found 'ful' (text); …; did you mean full?"),
        # --- lists: twice, and none
        ("devices: [cpu, cpu]", "devices: found 'cpu' (text) twice; allowed: each value once"),
        ("epochs: []", "epochs: found an empty list; …; or leave the key out"),
        # --- devices and loops
        ("devices: [cpu, tpu]", "devices[1]: found 'tpu' (text); allowed: cpu, gpu; did you mean gpu?"),
        ("devices: [auto]", "devices[0]: found 'auto' (text); …; write devices: auto, without a list"),
        ("loops: [fast]", "loops[0]: found 'fast' (text); allowed: stock, tuned"),
        (
            "loops: [stock, tuned], frameworks: [chainer, keras-torch]",
            "loops[1]: found 'tuned' (text), but there is no tuned loop for keras-torch; allowed: stock, or only "
            f"frameworks with a tuned loop ({TUNED}); move keras-torch to another experiment",
        ),
        (
            "loops: [tuned, stock], frameworks: [chainer], baseline: keras-jax on cpu",
            "baseline: found 'keras-jax on cpu' (text); allowed: null, chainer tuned on cpu, chainer on cpu, "
            "chainer tuned on gpu, chainer on gpu",
        ),
        # --- the input transform; recipe and dataset may come from the defaults
        (
            "input: {crop: [24, 24]}",
            "input.crop: the recipe mnist-mlp-keras does not fit the dataset digits: it takes inputs of 1 x 28 x 28 "
            "(channels x height x width), but gets 1 x 24 x 24; allowed: another recipe, or another input.crop",
        ),
        ("datasets: [mnist], input: {crop: [32, 28]}", "input.crop: …mnist: it crops 32 x 28 …of 28 x 28; …input.crop"),
        ("input: {crop: [28]}", "input.crop: found [28] (a list); …"),
        ("input: {crop: [28, 28, 1]}", "input.crop: found [28, 28, 1] (a list); …"),
        ("input: {crop: [0, 28]}", "input.crop[0]: found 0 (a whole number); allowed: …1 or more"),
        ("input: {mean_window: top_left}", "input.mean_window: found 'top_left' (text); …; did you mean top-left?"),
        ("input: {random_crop: true}", "input.random_crop: found true, and …whole images; …false, or an input.crop"),
        # --- recipes and datasets that do not fit each other
        (
            "recipes: [mnist-mlp-flux, mnist-mlp-chainer], datasets: [digits, imdb]",
            "recipes[0]: …mnist-mlp-flux …imdb: …images…400 token ids; …(digits, mnist, …)…\n"
            "recipes[1]: …mnist-mlp-chainer …imdb: …images…400 token ids; …(digits, mnist, …)…",
        ),
        (
            "recipes: [imdb-cnn], datasets: [imdb, mnist]",
            "recipes[0]: …imdb-cnn …mnist: …400 token ids…images; …(imdb, imdb-keras)…",
        ),
        (
            "recipes: [imdb-cnn], datasets: [imdb], input: {scale: 1}",
            "input: found {scale: 1} (a mapping), and the recipe imdb-cnn takes token ids…; …no input…",
        ),
        # --- images in files, of which windows are trained on
        (
            "recipes: [imagenet-alex], datasets: [mnist]",
            "recipes[0]: …mnist: …crops 227 x 227 …of 28 x 28; …(imagenette-160, …, image-folder), or another recipe",
        ),
        (
            "datasets: [ilsvrc2012]",
            "recipes[0]: …ilsvrc2012: …1 x 28 x 28…gets 3 x 256 x 256; …(digits, …), or another recipe",
        ),
        (
            "datasets: [imagenette], recipes: [imagenet-alex], input: {crop: [98, 227]}",
            "input.crop: …3 x 99 x 99 or larger…gets 3 x 98 x 227; allowed: another recipe, or another input.crop",
        ),
        (
            "datasets: [imagenette], recipes: [imagenet-resnet50], input: {crop: [257, 256]}",
            "input.crop: …crops 257 x 256 …of 256 x 256; …format npy, npz or synthetic, …3 x 257 x 256 or larger…",
        ),
        (
            "datasets: [mini-imagenet-8], recipes: [imagenet-nin], input: {crop: [99, 200]}",
            "input.crop: …imagenet-nin …mini-imagenet-8: …more than one result…; …",
        ),
        (
            "datasets: [image-folder], recipes: [imagenet-resnet50], input: {crop: null}",
            "input.crop: …image-folder: it takes whole images, and image files are trained on with an input.crop; …",
        ),
        # --- settings of streamed images
        (
            "loader: {jobs: 4}, evaluation_batch_size: 250",
            "loader: found {jobs: 4} (a mapping), which has no effect, since the experiment streams no images; "
            "allowed: no loader, a dataset of image files, or an input with random_crop or random_flip\n"
            "evaluation_batch_size: found 250 (a whole number), which has no effect, …; …no evaluation_batch_size…",
        ),
        ("recipes: [imdb-cnn], datasets: [imdb], loader: {store: mapped}", "loader: found {store: 'mapped'} …; …"),
        ("loader: {jobs: 0}", "loader.jobs: found 0 (a whole number); …"),
        ("loader: {prefetch: 2}", "loader.prefetch: unknown key; allowed: iterator, jobs, store"),
    ],
)
def test_an_experiment(keys, expected):
    assert_says(message_of(write(experiment(keys))), expected, "broken.yaml: experiments.e.")


IMDB = "experiments: {e: {recipes: [imdb-cnn], datasets: [imdb]}}"
SOME = "title: S, format: class_subset, of: imdb, classes: 2, seed: 1"
OWN = "title: S, format: synthetic, image_shape: [1, 28, 30], classes: 2, samples: {train: 99, test: 2}, seed: 1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # --- the keys at the top
        ("experiment: {}\nexperiments: {e: {}}", "experiment: unknown key; …; did you mean experiments?"),
        ("5: 1\nexperiments: {e: {7: 1}}", "5: unknown key; …\nexperiments.e.7: unknown key; …"),
        ("mirror: ''\nexperiments: {e: {}}", "mirror: found '' (text); …; or leave the key out"),
        ("offline: 'yes'\nprepare: [mnist]", "offline: found 'yes' (text); allowed: true or false; …without quotes"),
        ("prepare: [zebra]", "prepare[0]: found 'zebra' (text); …"),
        (
            "prepare: [flower]\ndatasets: {mnist: {title: T}, flowers: {title: T, format: image_folder, folder: f}}",
            "prepare[0]: found 'flower' (text); …synthetic-images, flowers; did you mean flowers?",
        ),
        ("prepare:", "prepare: found nothing (null); …"),
        ("prepare: [mnist]\nexperiments: {}", "experiments: found an empty mapping; …; or leave the key out"),
        ("prepare: [mnist]\ndatasets: [mnist]", "datasets: found ['mnist'] (a list); …"),
        (
            "prices: {cpu_hour: -1, gpu: 3}\nprepare: [mnist]",
            "prices.cpu_hour: found -1 …; …\nprices.gpu: unknown …; …",
        ),
        (
            'figures: {width: 20, font: "Arial\' x"}\nprepare: [mnist]',
            "figures.width: found 20 …; allowed: a number from 60 to 400, or null\nfigures.font: found …; …",
        ),
        (
            "figures: {trainers: [chainer-cpu, chainer-tpu]}\nexperiments: {e: {frameworks: [chainer]}}",
            "figures.trainers[1]: found 'chainer-tpu' (text); allowed: chainer-cpu, chainer-gpu",
        ),
        # --- claims
        ("claims: [{}]\nexperiments: {e: {}}", "claims[0]: lacks the key says; …"),
        (
            "claims: [{says: S, at_most: 1, verdict: faster, where: {epochs: 9, metrik: x}}]\nexperiments: {e: {}}",
            "claims[0].where.metrik: unknown key; …; did you mean metric?",
        ),
        ("claims: [{says: S, at_most: 1}]\nexperiments: {e: {}}", "claims[0]: where is missing; allowed: …"),
        (
            "claims: [{says: S, at_least: 2, at_most: 1, verdict: faster, where: {epochs: 9}}]\n"
            "experiments: {e: {epochs: [1]}}",
            "claims[0]: allowed: at_least, at_most or both; or verdict; or pairs\n"
            "claims[0].at_least: found 2, which is more than at_most\n"
            "claims[0].where.epochs: found 9 (a whole number); allowed: 1",
        ),
        (
            "claims: [{says: S, pairs: certified, where: {epochs: 1}}]\nexperiments: {e: {epochs: [1]}}",
            "claims[0].where.epochs: has no effect on pairs; allowed: experiment, recipe, dataset",
        ),
        # --- nothing to do
        ("# nothing but a comment", LACKS_BOTH),
        ("mirror: m", "top level: lacks the key experiments or prepare; allowed: one of them, or both"),
        ("experiments:\n  e:", "experiments.e: found nothing (null); …"),
        # --- names of experiments
        (
            "experiments:\n  My Run: {}",
            "experiments.'My Run': found the name 'My Run' (text); allowed: lower-case letters, digits and hyphens, "
            "40 at most",
        ),
        (f"experiments: {{{'a' * 41}: {{}}}}", f"experiments.{'a' * 41}: found the name '{'a' * 41}' (text); …"),
        ('experiments:\n  "a\\n": {}', r"experiments.'a\n': found the name 'a\n' (text); …"),
        (
            "experiments:\n  2017: {epochs: [0]}",
            "experiments.2017: found the name 2017 (a whole number); …; write it in quotes\n"
            "experiments.2017.epochs[0]: found 0 (a whole number); …",
        ),
        ("experiments:\n  on: {}", "experiments.true: found the name true (true or false); …; write it in quotes"),
        # --- images of another shape; texts that are too long, or of too many words
        (
            f"datasets: {{wide: {{{OWN}}}}}\nexperiments: {{e: {{recipes: [mnist-mlp-chainer], datasets: [wide]}}}}",
            "experiments.e.recipes[0]: …wide: …gets 1 x 28 x 30; …(digits, …), another recipe, or another input.crop\n"
            "experiments.e.batch_size: found 100, the batch size of the recipe mnist-mlp-chainer, but …99…; …1 to 99",
        ),
        (
            f"datasets: {{imdb: {{sequence_length: 200}}}}\n{IMDB}",
            "experiments.e.recipes[0]: …imdb: …400 token ids…200 token ids; …(imdb-keras)…",
        ),
        (
            f"datasets: {{imdb: {{vocabulary_size: 5001}}, some: {{{SOME}}}}}\n{IMDB.replace('[imdb]', '[some]')}",
            "experiments.e.recipes[0]: …some: …knows 5000 token ids…5001 (vocabulary_size); …(imdb-keras)…",
        ),
        (
            f"datasets: {{imdb: {{sequence_length: 9}}, imdb-keras: {{sequence_length: 8}}}}\n{IMDB}",
            "experiments.e.recipes[0]: …imdb: …9 token ids; …reviews, with sequence_length 400 and at most 5000 …",
        ),
    ],
)
def test_a_config(text, expected):
    assert_says(message_of(write(text)), expected, "broken.yaml: ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1]\nb: 1\na: [2]", ", line 3: found the key 'a' twice (first in line 1); allowed: each key once"),
        ("e: &e {}\nf:\n  <<: *e\n  <<: *e", ", line 4: found the key '<<' twice (first in line 3); …"),
        ("a: &a {}\nb:\n  <<: *a\n  x: 6\n  x: 7", ", line 5: found the key 'x' twice (first in line 4); …"),
        ("e:\n  a: [10, 20\n  b: 1", ", line 3: expected ',' or ']', …(…a flow sequence, begun in line 2)"),
        ("e:\n  a: note: x", ", line 2: mapping values are not allowed here; …needs quotes"),
        ("e: !!python/object/apply:os.system ['touch owned']", ", line 1: found the tag !!python/object/apply:os.…; …"),
        ("e:\n  a: 2017-13-45", ", line 2: found '2017-13-45', which is no timestamp; …needs quotes"),
        ("e:\n  epochs: [010]", ", line 2: found 010, which YAML reads as 8; …"),
        ("e:\n  seed: 1_0:30", ", line 2: found 1_0:30, which YAML reads as 630; …"),
        ("e:\n  limit: 1:30.5", ", line 2: found 1:30.5, which YAML reads as 90.5; …"),
        ("a: &x\n  e: *x", ", line 1: found unconstructable recursive node"),
        ("a: @home", ", line 1: found '@'; …needs quotes"),
        ("a:\n\te: {}", ", line 2: found a tab; indent with spaces"),
        ("a: \x00", ": not valid YAML (unacceptable character #x0000: …)"),
        ("a:\n  ? [a, b]\n  : 1", ", line 2: found a list as a key; …"),
        ("a: {{ epochs }}", ", line 1: found a mapping as a key; …"),
        ("a:\n  ~: {}", ", line 2: found nothing (null) as a key; …"),
        ("a:\n  <<: 5", ", line 2: expected a mapping…for merging, …(while constructing a mapping, begun in line 2)"),
        ("a: 1\n---\nb: 1", ", line 2: found a second document (---); …"),
        ("- a\n- b", ": found a list at the top; …"),
        ("[" * 600, ": not valid YAML (nested too deeply)"),
    ],
)
def test_what_is_no_plain_yaml(text, expected):
    assert_says(message_of(write(text)), expected, "broken.yaml")
    assert not Path("owned").exists(), "a tag runs nothing"


def test_files_that_can_not_be_read(monkeypatch):
    Path("broken.yaml").write_bytes(b"experiments: {e: {description: caf\xe9}}\n")
    assert message_of("broken.yaml") == "broken.yaml: not a text file in UTF-8"
    assert message_of("missing.yaml") == "missing.yaml: there is no such file"
    Path("folder.yaml").mkdir()
    assert message_of("folder.yaml") == "folder.yaml: found a folder; allowed: a file"

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)  # not by its mode: root may read everything
    assert message_of("broken.yaml") == "broken.yaml: can't be read (Permission denied)"


# --- more than one file -------------------------------------------------------------------------------------------


def test_a_later_file_and_the_command_line_take_precedence():
    """A mistake that a later file puts right is none."""
    Path("m").mkdir()
    write("mirror: m\nexperiments: {e: {epochs: [1, 0], repeats: 2, input: {scale: 1, crop: [28, 28]}}}\n", "a.yaml")
    write("experiments: {e: {epochs: [3], input: {scale: 2}}, f: {seed: 4}}\n", "b.yaml")
    files = [Path("a.yaml"), Path("b.yaml")]
    config, _ = load_config(files, {"experiments": {"e": {"input": {"crop": None}, "seed": 9}}})
    assert config["mirror"] == "m"
    assert list(config["experiments"]) == ["e", "f"]
    e, f = config["experiments"]["e"], config["experiments"]["f"]
    assert (e["epochs"], e["repeats"], e["seed"]) == ([3], 2, 9), "a list takes the place of a list, whole"
    assert e["input"] == {"scale": 2, "crop": None}, "mappings are merged key by key"
    assert (f["seed"], f["epochs"]) == (4, [10])


@pytest.mark.parametrize(
    ("texts", "overrides", "expected"),
    [
        ([], {}, f"no config file: {LACKS_BOTH}"),
        (["mirror: m"], {"mirror": "n"}, f"a.yaml: {LACKS_BOTH}"),  # what all lack is the first one's
        (
            ["experiments: {e: {input: {crop: [24, 24]}}}", "experiments: {e: {recipes: [mnist-mlp-flux]}}"],
            {},
            "a.yaml: experiments.e.input.crop: …mnist-mlp-flux does not fit the dataset digits: …; …",
        ),
        (
            ["experiments: {e: {epochs: [1, -2], repeat: 2}}", "experiments: {e: {seed: -3}, f: {seed: x}}"],
            {"experiments": {"e": {"repeats": 0}}},
            "a.yaml: experiments.e.epochs[1]: found -2 (a whole number); …\n"
            "a.yaml: experiments.e.repeat: unknown key; …; did you mean repeats?\n"
            "b.yaml: experiments.e.seed: found -3 (a whole number); …\n"
            "--config: experiments.e.repeats: found 0 (a whole number); …\n"
            "b.yaml: experiments.f.seed: found 'x' (text); …",
        ),
        (
            ["experiments: {e: }", "experiments: {e: {epochs: [0]}}"],  # a. holds nothing there
            {},
            "b.yaml: experiments.e.epochs[0]: found 0 (a whole number); …",
        ),
        ([], {"experiments": {None: {"epochs": [0]}}}, "--config: experiments.null: found the name nothing (null); …"),
    ],
)
def test_the_file_that_is_blamed(texts, overrides, expected):
    files = [write(text, f"{letter}.yaml") for letter, text in zip("ab", texts, strict=False)]
    assert_says(message_of(*files, overrides=overrides), expected, "")


def test_the_formats_that_are_advised_can_hold_grey_images():
    """IDX has no axis for colours."""
    recipe = RECIPES["mnist-mlp-keras"]
    (way,) = fit_check._datasets_that_fit(recipe, recipe.input, {})
    assert way == "a dataset of your own of format npy, npz, idx, digits or synthetic, whose image_shape is 1 x 28 x 28"


# --- networks of one's own ------------------------------------------------------------------------------------------


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
        ({"architecture": with_layer("Linear")}, "layer 'out': unknown op 'Linear'; known: Flatten"),
        ({"architecture": with_layer("Dense", out_features=3)}, "layer 'out': Dense lacks units"),
        ({"initializer": "xavier"}, "unknown initializer 'xavier'; known: lecun_normal"),
        ({"optimizer": Optimizer("adamw", 0.1)}, "unknown update rule 'adamw'; known: sgd"),
        (
            {"optimizer": Optimizer("sgd", 0.1, (("momentum", 0.9),))},
            "the rule sgd has learning_rate, and its optimizer has learning_rate, momentum",
        ),
        (
            {"published_parameters": 5},
            "its network has 25,450 parameters with 10 classes, and its",
        ),
    ],
)
def test_a_recipe_that_can_not_be_trained(changes, why, monkeypatch):
    monkeypatch.setitem(RECIPES, "mnist-mlp-flux", replace(RECIPES["mnist-mlp-flux"], **changes))
    fit_check._recipe_problem.cache_clear()
    message = message_of(write(experiment("recipes: [mnist-mlp-flux], datasets: [digits]")))
    fit_check._recipe_problem.cache_clear()
    assert f"recipes[0]: the recipe mnist-mlp-flux: {why}" in message


# --- initial weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "does not exist"),
        ({"dense1.kernel": np.zeros((784, 32))}, "is of another network than mlp-32: it lacks …"),
    ],
    ids=["missing", "another network"],
)
def test_initial_weights_that_no_run_can_start_from(content, why):
    if content:
        np.savez("weights.npz", **content)
    file = write(experiment("recipes: [mnist-mlp-flux], datasets: [digits], initial_weights: weights.npz"))
    assert_says(
        message_of(file),
        f"found 'weights.npz' (text), a file that {why}; allowed: weights.npz of a run of mnist-mlp-flux with 10 "
        "classes, in any framework, or null",
        "broken.yaml: experiments.e.initial_weights: ",
    )


def test_initial_weights_that_are_missing_where_classes_are_counted_later():
    mine = "datasets: {mine: {title: Mine, format: image_folder, folder: photographs}}\n"
    keys = "recipes: [imagenet-nin], datasets: [mine], initial_weights: weights.npz"
    message = message_of(write(mine + experiment(keys)))
    assert "a file that does not exist; allowed: weights.npz of a run of imagenet-nin with as many classes" in message
    np.savez("weights.npz", **{"conv1.kernel": np.zeros((1, 1))})
    load_config([write(mine + experiment(keys))])
