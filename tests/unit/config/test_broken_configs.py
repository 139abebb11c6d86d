"""What a person reads when a config is wrong: for each mistake the whole message, word for word.

A message is one line a finding: file, key path, what was found, what is allowed and, where there is one, the nearest
spelling. Nothing that is wrong may load, and nothing may end in a traceback.
"""

import errno
from pathlib import Path

import pytest
from config_messages import message_of, one_line_each, write

from trainmark.config.fit_check import check_fit
from trainmark.config.load import load_config, read_yaml, with_defaults
from trainmark.errors import ConfigError

pytestmark = pytest.mark.usefixtures("in_tmp_path")

TOP_KEYS = "mirror, offline, prepare, datasets, experiments"
EXPERIMENT_KEYS = (
    "description, recipes, datasets, frameworks, devices, epochs, repeats, seed, batch_size, step_losses, "
    "memory_limit_mib, keep_weights, input"
)
INPUT_KEYS = "scale, subtract_mean, crop, mean_window"
RECIPES = (
    "mnist-mlp-chainer, mnist-mlp-keras, mnist-mlp-flux, imdb-cnn, imagenet-alex, imagenet-nin, imagenet-googlenet, "
    "imagenet-googlenetbn, imagenet-resnet50"
)
DATASETS = (
    "digits, mnist, fashion-mnist, imdb, imdb-keras, imagenette-160, imagenette-320, imagenette, ilsvrc2012, "
    "mini-imagenet-8, mini-imagenet-16, mini-imagenet-32, image-folder, synthetic-images"
)
DATASETS_OF_28_X_28 = "a dataset that fits (digits, mnist, fashion-mnist, synthetic-images)"
DATASETS_OF_TEXTS = "a dataset that fits (imdb, imdb-keras)"
FRAMEWORKS = "chainer, keras-tensorflow, keras-jax, keras-torch"
NAME = "lower-case letters, digits and hyphens, 40 at most"
NAMED_EXPERIMENTS = (
    "a mapping with at least one experiment, under a name of lower-case letters, digits and hyphens (40 at most)"
)
NOT_FINITE = "no finite number); allowed: a number above 0"
NEITHER = "top level: lacks the key experiments or prepare; allowed: one of them, or both"
EPOCHS = "a list of whole numbers, 1 or more"
FROM_1 = "a whole number, 1 or more"
REPEATS = "a whole number, 1 to 10000"
FROM_0 = "a whole number, 0 or more"
BATCH_SIZE = "recipe, full, or a whole number, 1 or more"
DEVICES = "auto, or a list of cpu and gpu"
CROP = "a list of height and width, or null"
A_MAPPING_OF_INPUT = "a mapping of scale, subtract_mean, crop and mean_window"


def experiment(keys: str) -> str:
    """A config with one experiment, e, of these keys (flow style)."""
    return f"experiments:\n  e: {{{keys}}}\n"


def in_e(path: str, sentence: str) -> str:
    return f"broken.yaml: experiments.e.{path}: {sentence}"


# (name of the case, text of the file, the whole message)
MESSAGES = [
    # --- unknown keys
    (
        "unknown top-level key, nearest",
        "experiment: {}\nexperiments: {e: {}}\n",
        f"broken.yaml: experiment: unknown key; allowed: {TOP_KEYS}; did you mean experiments?",
    ),
    (
        "unknown top-level key, nothing near",
        "zebra: 1\nexperiments: {e: {}}\n",
        f"broken.yaml: zebra: unknown key; allowed: {TOP_KEYS}",
    ),
    (
        "yte templating",
        "__use_yte__: true\nexperiments: {e: {}}\n",
        f"broken.yaml: __use_yte__: unknown key; allowed: {TOP_KEYS}",
    ),
    (
        "unknown experiment key, nearest",
        experiment("epoch: [1]"),
        in_e("epoch", f"unknown key; allowed: {EXPERIMENT_KEYS}; did you mean epochs?"),
    ),
    (
        "unknown experiment key, nothing near",
        experiment("zzz: [1]"),
        in_e("zzz", f"unknown key; allowed: {EXPERIMENT_KEYS}"),
    ),
    (
        "unknown input key",
        experiment("input: {sclae: 1}"),
        in_e("input.sclae", f"unknown key; allowed: {INPUT_KEYS}; did you mean scale?"),
    ),
    # --- the wrong type
    (
        "number for text at the top",
        "mirror: 5\nexperiments: {e: {}}\n",
        "broken.yaml: mirror: found 5 (a whole number); allowed: a folder, a file:// or http(s):// address, or null",
    ),
    (
        "empty mirror",
        "mirror: ''\nexperiments: {e: {}}\n",
        "broken.yaml: mirror: found '' (text); allowed: a folder, a file:// or http(s):// address, or null",
    ),
    ("text for list", experiment("epochs: ten"), in_e("epochs", f"found 'ten' (text); allowed: {EPOCHS}")),
    (
        "number for list",
        experiment("epochs: 10"),
        in_e("epochs", f"found 10 (a whole number); allowed: {EPOCHS}; write [10]"),
    ),
    ("text for integer", experiment("repeats: three"), in_e("repeats", f"found 'three' (text); allowed: {REPEATS}")),
    (
        "integer in quotes",
        experiment("repeats: '3'"),
        in_e("repeats", f"found '3' (text); allowed: {REPEATS}; write it without quotes"),
    ),
    (
        "number in quotes",
        experiment("input: {scale: '0.5'}"),
        in_e("input.scale", "found '0.5' (text); allowed: a number above 0; write it without quotes"),
    ),
    (
        "list in quotes",
        experiment("epochs: '[1, 2]'"),
        in_e("epochs", f"found '[1, 2]' (text); allowed: {EPOCHS}; write it without quotes"),
    ),
    (
        "number in quotes that would be out of range",
        experiment("repeats: '-3'"),
        in_e("repeats", f"found '-3' (text); allowed: {REPEATS}"),
    ),
    ("float for integer", experiment("repeats: 2.5"), in_e("repeats", f"found 2.5 (a number); allowed: {REPEATS}")),
    ("float epochs", experiment("epochs: [1.5]"), in_e("epochs[0]", f"found 1.5 (a number); allowed: {FROM_1}")),
    (
        "exponent that YAML 1.1 reads as text",
        experiment("epochs: [1e1]"),
        in_e("epochs[0]", f"found '1e1' (text); allowed: {FROM_1}"),
    ),
    (
        "exponent that YAML 1.1 reads as text, for a number",
        experiment("input: {scale: 1e-3}"),
        in_e(
            "input.scale",
            "found '1e-3' (text); allowed: a number above 0; "
            "a number's exponent needs a point before it and a sign, as in 1.0e-3",
        ),
    ),
    (
        "boolean for integer",
        experiment("repeats: true"),
        in_e("repeats", f"found true (true or false); allowed: {REPEATS}"),
    ),
    (
        "boolean in a list of integers",
        experiment("epochs: [yes]"),
        in_e("epochs[0]", f"found true (true or false); allowed: {FROM_1}"),
    ),
    ("list for text", experiment("description: [a]"), in_e("description", "found ['a'] (a list); allowed: text")),
    (
        "number for text",
        experiment("description: 2017"),
        in_e("description", "found 2017 (a whole number); allowed: text"),
    ),
    (
        "list for mapping",
        experiment("input: [1]"),
        in_e("input", f"found [1] (a list); allowed: {A_MAPPING_OF_INPUT}"),
    ),
    (
        "text for mapping",
        experiment("input: whole"),
        in_e("input", f"found 'whole' (text); allowed: {A_MAPPING_OF_INPUT}"),
    ),
    (
        "text for boolean",
        experiment("input: {subtract_mean: 'yes'}"),
        in_e("input.subtract_mean", "found 'yes' (text); allowed: true or false; write it without quotes"),
    ),
    (
        "integer for boolean",
        experiment("input: {subtract_mean: 1}"),
        in_e("input.subtract_mean", "found 1 (a whole number); allowed: true or false"),
    ),
    (
        "boolean for number",
        experiment("input: {scale: true}"),
        in_e("input.scale", "found true (true or false); allowed: a number above 0"),
    ),
    (
        "fraction for number",
        experiment("input: {scale: 1/255}"),
        in_e("input.scale", "found '1/255' (text); allowed: a number above 0"),
    ),
    (
        "date for text",
        experiment("description: 2017-01-31"),
        in_e("description", "found 2017-01-31 (a date); allowed: text"),
    ),
    ("null for integer", experiment("seed: null"), in_e("seed", f"found nothing (null); allowed: {FROM_0}")),
    ("no number", experiment("input: {scale: .nan}"), in_e("input.scale", f"found .nan ({NOT_FINITE}")),
    ("infinity", experiment("input: {scale: .inf}"), in_e("input.scale", f"found .inf ({NOT_FINITE}")),
    ("minus infinity", experiment("input: {scale: -.inf}"), in_e("input.scale", f"found -.inf ({NOT_FINITE}")),
    (
        "a number beyond all floats",
        experiment(f"input: {{scale: 1{'0' * 400}}}"),
        in_e("input.scale", f"found 1{'0' * 55}...0 (a whole number); allowed: a number above 0"),
    ),
    ("integer with a point", experiment("repeats: 3.0"), in_e("repeats", f"found 3.0 (a number); allowed: {REPEATS}")),
    (
        "long list",
        experiment(f"epochs: [[{', '.join('1' * 40)}]]"),
        in_e("epochs[0]", f"found [{'1, ' * 18}1...] (a list); allowed: {FROM_1}"),
    ),
    (
        "a mapping with true and null in it",
        experiment("description: {a: [true, null], b c: 1.5}"),
        in_e("description", "found {a: [true, null], 'b c': 1.5} (a mapping); allowed: text"),
    ),
    # --- unknown names
    (
        "number for a name",
        experiment("recipes: [3]"),
        in_e("recipes[0]", f"found 3 (a whole number); allowed: {RECIPES}"),
    ),
    (
        "a name without a list",
        experiment("frameworks: chainer"),
        in_e("frameworks", "found 'chainer' (text); allowed: a list of framework names; write [chainer]"),
    ),
    (
        "an unknown key that is a number",
        "5: 1\nexperiments: {e: {7: 1}}\n",
        f"broken.yaml: 5: unknown key; allowed: {TOP_KEYS}\n" + in_e("7", f"unknown key; allowed: {EXPERIMENT_KEYS}"),
    ),
    (
        "unknown framework, nearest",
        experiment("frameworks: [chainer, keras-tensorfow]"),
        in_e("frameworks[1]", f"found 'keras-tensorfow' (text); allowed: {FRAMEWORKS}; did you mean keras-tensorflow?"),
    ),
    (
        "framework in capitals",
        experiment("frameworks: [Chainer]"),
        in_e("frameworks[0]", f"found 'Chainer' (text); allowed: {FRAMEWORKS}; did you mean chainer?"),
    ),
    (
        "unknown framework, nothing near",
        experiment("frameworks: [xyz]"),
        in_e("frameworks[0]", f"found 'xyz' (text); allowed: {FRAMEWORKS}"),
    ),
    (
        "unknown recipe, nearest",
        experiment("recipes: [mnist-mlp-kera]"),
        in_e("recipes[0]", f"found 'mnist-mlp-kera' (text); allowed: {RECIPES}; did you mean mnist-mlp-keras?"),
    ),
    (
        "unknown recipe, nothing near",
        experiment("recipes: [foo]"),
        in_e("recipes[0]", f"found 'foo' (text); allowed: {RECIPES}"),
    ),
    (
        "unknown dataset, nearest",
        experiment("datasets: [digit]"),
        in_e("datasets[0]", f"found 'digit' (text); allowed: {DATASETS}; did you mean digits?"),
    ),
    (
        "unknown dataset, nothing near",
        experiment("datasets: [zebra]"),
        in_e("datasets[0]", f"found 'zebra' (text); allowed: {DATASETS}"),
    ),
    # --- numbers out of range
    (
        "negative epoch",
        experiment("epochs: [10, -1]"),
        in_e("epochs[1]", f"found -1 (a whole number); allowed: {FROM_1}"),
    ),
    ("zero epochs", experiment("epochs: [0]"), in_e("epochs[0]", f"found 0 (a whole number); allowed: {FROM_1}")),
    ("zero repeats", experiment("repeats: 0"), in_e("repeats", f"found 0 (a whole number); allowed: {REPEATS}")),
    (
        "too many repeats",
        experiment("repeats: 10001"),
        in_e("repeats", f"found 10001 (a whole number); allowed: {REPEATS}"),
    ),
    ("negative seed", experiment("seed: -1"), in_e("seed", f"found -1 (a whole number); allowed: {FROM_0}")),
    (
        "negative step_losses",
        experiment("step_losses: -5"),
        in_e("step_losses", f"found -5 (a whole number); allowed: {FROM_0}"),
    ),
    (
        "scale 0",
        experiment("input: {scale: 0}"),
        in_e("input.scale", "found 0 (a whole number); allowed: a number above 0"),
    ),
    (
        "batch_size 0",
        experiment("batch_size: 0"),
        in_e("batch_size", f"found 0 (a whole number); allowed: {BATCH_SIZE}"),
    ),
    (
        "batch_size misspelt",
        experiment("batch_size: ful"),
        in_e("batch_size", f"found 'ful' (text); allowed: {BATCH_SIZE}; did you mean full?"),
    ),
    (
        "batch_size 12.5",
        experiment("batch_size: 12.5"),
        in_e("batch_size", f"found 12.5 (a number); allowed: {BATCH_SIZE}"),
    ),
    (
        "batch_size in a list",
        experiment("batch_size: [128]"),
        in_e("batch_size", f"found [128] (a list); allowed: {BATCH_SIZE}"),
    ),
    # --- lists: twice, and none
    (
        "epochs twice",
        experiment("epochs: [10, 10]"),
        in_e("epochs", "found 10 (a whole number) twice; allowed: each value once"),
    ),
    (
        "framework twice",
        experiment("frameworks: [chainer, chainer]"),
        in_e("frameworks", "found 'chainer' (text) twice; allowed: each value once"),
    ),
    (
        "device twice",
        experiment("devices: [cpu, cpu]"),
        in_e("devices", "found 'cpu' (text) twice; allowed: each value once"),
    ),
    ("no epochs", experiment("epochs: []"), in_e("epochs", f"found an empty list; allowed: {EPOCHS}")),
    ("no devices", experiment("devices: []"), in_e("devices", f"found an empty list; allowed: {DEVICES}")),
    # --- devices
    (
        "unknown device",
        experiment("devices: [cpu, tpu]"),
        in_e("devices[1]", "found 'tpu' (text); allowed: cpu, gpu; did you mean gpu?"),
    ),
    (
        "auto in a list",
        experiment("devices: [auto]"),
        in_e("devices[0]", "found 'auto' (text); allowed: cpu, gpu; write devices: auto, without a list"),
    ),
    (
        "auto misspelt",
        experiment("devices: atuo"),
        in_e("devices", f"found 'atuo' (text); allowed: {DEVICES}; did you mean auto?"),
    ),
    (
        "a bare device",
        experiment("devices: cpu"),
        in_e("devices", f"found 'cpu' (text); allowed: {DEVICES}; write [cpu]"),
    ),
    # --- the input transform
    (
        "crop that makes the recipe unfit",
        experiment("recipes: [mnist-mlp-keras], datasets: [digits], input: {crop: [24, 24]}"),
        in_e(
            "input.crop",
            "the recipe mnist-mlp-keras does not fit the dataset digits: it takes inputs of 1 x 28 x 28 "
            "(channels x height x width), and gets 1 x 24 x 24; allowed: another recipe, or another input.crop",
        ),
    ),
    (
        "crop larger than the image",
        experiment("recipes: [mnist-mlp-flux, mnist-mlp-keras], datasets: [mnist], input: {crop: [32, 28]}"),
        "\n".join(
            in_e(
                "input.crop",
                f"the recipe {recipe} does not fit the dataset mnist: it crops 32 x 28 out of images of 28 x 28; "
                "allowed: another recipe, or another input.crop",
            )
            for recipe in ("mnist-mlp-flux", "mnist-mlp-keras")
        ),
    ),
    (
        "crop of one side",
        experiment("input: {crop: [28]}"),
        in_e("input.crop", f"found [28] (a list); allowed: {CROP}"),
    ),
    (
        "crop of three sides",
        experiment("input: {crop: [28, 28, 1]}"),
        in_e("input.crop", f"found [28, 28, 1] (a list); allowed: {CROP}"),
    ),
    (
        "crop of nothing",
        experiment("input: {crop: [0, 28]}"),
        in_e("input.crop[0]", f"found 0 (a whole number); allowed: {FROM_1}"),
    ),
    (
        "mean_window misspelt",
        experiment("input: {mean_window: top_left}"),
        in_e("input.mean_window", "found 'top_left' (text); allowed: same, top-left; did you mean top-left?"),
    ),
    (
        "mean_window unknown",
        experiment("input: {mean_window: middle}"),
        in_e("input.mean_window", "found 'middle' (text); allowed: same, top-left"),
    ),
    # --- recipes and datasets that do not fit each other
    (
        "a network for images on texts",
        experiment("recipes: [mnist-mlp-flux, mnist-mlp-chainer], datasets: [digits, imdb]"),
        "\n".join(
            in_e(
                f"recipes[{i}]",
                f"the recipe {recipe} does not fit the dataset imdb: it takes images, and gets texts of 400 token ids; "
                f"allowed: {DATASETS_OF_28_X_28}, or another recipe",
            )
            for i, recipe in enumerate(["mnist-mlp-flux", "mnist-mlp-chainer"])
        ),
    ),
    (
        "a network for texts on images",
        experiment("recipes: [imdb-cnn], datasets: [imdb, mnist]"),
        in_e(
            "recipes[0]",
            "the recipe imdb-cnn does not fit the dataset mnist: it takes texts of 400 token ids, and gets images; "
            f"allowed: {DATASETS_OF_TEXTS}, or another recipe",
        ),
    ),
    (
        "a network for texts on shorter ones",
        "datasets: {imdb: {sequence_length: 200}}\n" + experiment("recipes: [imdb-cnn], datasets: [imdb]"),
        in_e(
            "recipes[0]",
            "the recipe imdb-cnn does not fit the dataset imdb: it takes texts of 400 token ids, and gets texts of 200 "
            "token ids; allowed: a dataset that fits (imdb-keras), or another recipe",
        ),
    ),
    (
        "a network for texts on some of more token ids",
        "datasets:\n  imdb: {vocabulary_size: 5001}\n"
        "  some: {title: S, format: class_subset, of: imdb, classes: 2, seed: 1}\n"
        + experiment("recipes: [imdb-cnn], datasets: [some]"),
        in_e(
            "recipes[0]",
            "the recipe imdb-cnn does not fit the dataset some: it knows 5000 token ids, and gets texts of 5001 "
            "(vocabulary_size); allowed: a dataset that fits (imdb-keras), or another recipe",
        ),
    ),
    (
        "a network for texts where no dataset fits",
        "datasets: {imdb: {sequence_length: 9}, imdb-keras: {sequence_length: 8}}\n"
        + experiment("recipes: [imdb-cnn], datasets: [imdb]"),
        in_e(
            "recipes[0]",
            "the recipe imdb-cnn does not fit the dataset imdb: it takes texts of 400 token ids, and gets texts of 9 "
            "token ids; allowed: a dataset of your own of format reviews, with sequence_length 400 and at most 5000 as "
            "vocabulary_size, or another recipe",
        ),
    ),
    (
        "an input transform for token ids",
        experiment("recipes: [imdb-cnn], datasets: [imdb], input: {scale: 1}"),
        in_e(
            "input",
            "found {scale: 1} (a mapping), and the recipe imdb-cnn takes token ids as they are stored; "
            "allowed: no input, or a recipe for images",
        ),
    ),
    (
        "a network for large images on small ones",
        experiment("recipes: [imagenet-alex], datasets: [mnist]"),
        in_e(
            "recipes[0]",
            "the recipe imagenet-alex does not fit the dataset mnist: it crops 227 x 227 out of images of 28 x 28; "
            "allowed: a dataset of your own of format idx or synthetic, with images of 3 x 227 x 227 or larger, "
            "or another recipe",
        ),
    ),
    # --- images in files, on which nothing trains yet
    (
        "a network for large images on photographs",
        experiment("datasets: [imagenette-160, mini-imagenet-8], recipes: [imagenet-resnet50, imagenet-nin]"),
        "\n".join(
            in_e(
                f"datasets[{i}]",
                f"found '{dataset}' (text), whose images lie in files: they can be prepared (prepare: [{dataset}]), "
                "and not yet trained on; allowed for the recipe imagenet-resnet50: a dataset of your own of format idx "
                "or synthetic, with images of 3 x 224 x 224 or larger",
            )
            for i, dataset in enumerate(["imagenette-160", "mini-imagenet-8"])
        ),
    ),
    (
        "a network for small images on photographs",
        experiment("datasets: [ilsvrc2012], recipes: [mnist-mlp-keras]"),
        in_e(
            "datasets[0]",
            "found 'ilsvrc2012' (text), whose images lie in files: they can be prepared (prepare: [ilsvrc2012]), and "
            f"not yet trained on; allowed for the recipe mnist-mlp-keras: {DATASETS_OF_28_X_28}",
        ),
    ),
    (
        "photographs, and a crop that fits nothing",
        experiment("datasets: [imagenette], recipes: [mnist-mlp-keras], input: {crop: [9, 9]}"),
        in_e(
            "datasets[0]",
            "found 'imagenette' (text), whose images lie in files: they can be prepared (prepare: [imagenette]), and "
            "not yet trained on; allowed for the recipe mnist-mlp-keras: a dataset of arrays",
        ),
    ),
    # --- prepare and offline
    (
        "unknown dataset to prepare, nearest",
        "prepare: [digits, minst]\n",
        f"broken.yaml: prepare[1]: found 'minst' (text); allowed: {DATASETS}; did you mean mnist?",
    ),
    (
        "unknown dataset to prepare, nothing near",
        "prepare: [zebra]\n",
        f"broken.yaml: prepare[0]: found 'zebra' (text); allowed: {DATASETS}",
    ),
    (
        "own dataset to prepare, misspelt",
        "prepare: [flower]\ndatasets: {mnist: {title: T}, flowers: {title: T, format: image_folder, folder: f}}\n",
        f"broken.yaml: prepare[0]: found 'flower' (text); allowed: {DATASETS}, flowers; did you mean flowers?",
    ),
    (
        "number to prepare",
        "prepare: [5]\n",
        f"broken.yaml: prepare[0]: found 5 (a whole number); allowed: {DATASETS}",
    ),
    (
        "dataset to prepare twice",
        "prepare: [mnist, digits, mnist]\n",
        "broken.yaml: prepare: found 'mnist' (text) twice; allowed: each value once",
    ),
    (
        "a dataset to prepare without a list",
        "prepare: mnist\n",
        "broken.yaml: prepare: found 'mnist' (text); allowed: a list of dataset names; write [mnist]",
    ),
    (
        "an unknown dataset to prepare without a list",
        "prepare: zebra\n",
        "broken.yaml: prepare: found 'zebra' (text); allowed: a list of dataset names",
    ),
    (
        "mapping to prepare",
        "prepare: {mnist: {}}\n",
        "broken.yaml: prepare: found {mnist: {}} (a mapping); allowed: a list of dataset names",
    ),
    (
        "nothing to prepare",
        "prepare:\n",
        "broken.yaml: prepare: found nothing (null); allowed: a list of dataset names",
    ),
    (
        "datasets of one's own, and nothing to do with them",
        "datasets: {flowers: {title: T, format: image_folder, folder: f}}\n",
        f"broken.yaml: {NEITHER}",
    ),
    (
        "no experiment, beside a dataset to prepare",
        "prepare: [mnist]\nexperiments: {}\n",
        f"broken.yaml: experiments: found an empty mapping; allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "offline in quotes",
        "offline: 'yes'\nprepare: [mnist]\n",
        "broken.yaml: offline: found 'yes' (text); allowed: true or false; write it without quotes",
    ),
    (
        "offline as a word",
        "offline: always\nprepare: [mnist]\n",
        "broken.yaml: offline: found 'always' (text); allowed: true or false",
    ),
    (
        "offline as a number",
        "offline: 1\nprepare: [mnist]\n",
        "broken.yaml: offline: found 1 (a whole number); allowed: true or false",
    ),
    # --- experiments
    (
        "experiment name with capitals and a space",
        "experiments:\n  My Run: {}\n",
        f"broken.yaml: experiments.'My Run': found the name 'My Run' (text); allowed: {NAME}",
    ),
    (
        "experiment name too long",
        f"experiments:\n  {'a' * 41}: {{}}\n",
        f"broken.yaml: experiments.{'a' * 41}: found the name '{'a' * 41}' (text); allowed: {NAME}",
    ),
    (
        "experiment name with a folder",
        "experiments:\n  ../x: {}\n",
        f"broken.yaml: experiments.'../x': found the name '../x' (text); allowed: {NAME}",
    ),
    (
        "experiment name with a line break",
        'experiments:\n  "a\\n": {}\n',
        f"broken.yaml: experiments.'a\\n': found the name 'a\\n' (text); allowed: {NAME}",
    ),
    (
        "experiment name that is a number",
        "experiments:\n  2017: {epochs: [0]}\n",
        f"broken.yaml: experiments.2017: found the name 2017 (a whole number); allowed: {NAME}; write it in quotes\n"
        f"broken.yaml: experiments.2017.epochs[0]: found 0 (a whole number); allowed: {FROM_1}",
    ),
    (
        "experiment name that YAML reads as true",
        "experiments:\n  on: {}\n",
        f"broken.yaml: experiments.true: found the name true (true or false); allowed: {NAME}; write it in quotes",
    ),
    (
        "experiment name that is nothing",
        "experiments:\n  ~: {}\n",
        "broken.yaml, line 2: found nothing (null) as a key; allowed: a name",
    ),
    (
        "neither experiments nor prepare",
        "mirror: m\n",
        f"broken.yaml: {NEITHER}",
    ),
    (
        "no experiment",
        "experiments: {}\n",
        f"broken.yaml: experiments: found an empty mapping; allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "experiments null",
        "experiments:\n",
        f"broken.yaml: experiments: found nothing (null); allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "experiments as a list",
        "experiments: [a]\n",
        f"broken.yaml: experiments: found ['a'] (a list); allowed: {NAMED_EXPERIMENTS}",
    ),
    (
        "experiment null",
        "experiments:\n  e:\n",
        "broken.yaml: experiments.e: found nothing (null); "
        "allowed: a mapping of keys such as recipes, frameworks and epochs, or {} for all defaults",
    ),
    # --- YAML itself
    (
        "key given twice",
        "experiments:\n  e:\n    epochs: [1]\n    repeats: 1\n    epochs: [2]\n",
        "broken.yaml, line 5: found the key 'epochs' twice (first in line 3); allowed: each key once",
    ),
    (
        "experiment given twice",
        "experiments:\n  e: {}\n  e: {}\n",
        "broken.yaml, line 3: found the key 'e' twice (first in line 2); allowed: each key once",
    ),
    (
        "bracket not closed",
        "experiments:\n  e:\n    epochs: [10, 20\n    repeats: 1\n",
        "broken.yaml, line 4: expected ',' or ']', but got ':' (while parsing a flow sequence, begun in line 3)",
    ),
    (
        "key in the midst of a list",
        "experiments:\n  e:\n    epochs:\n      - 1\n      x: 2\n",
        "broken.yaml, line 5: expected <block end>, but found '?' (while parsing a block collection, begun in line 4)",
    ),
    (
        "quote not closed",
        "experiments:\n  e:\n    description: 'x\n",
        "broken.yaml, line 4: found unexpected end of stream (while scanning a quoted scalar, begun in line 3)",
    ),
    (
        "colon in text without quotes",
        "experiments:\n  e:\n    description: note: x\n",
        "broken.yaml, line 3: mapping values are not allowed here; text with ': ' in it needs quotes",
    ),
    (
        "python object",
        "experiments: !!python/object/apply:os.system ['touch owned']\n",
        "broken.yaml, line 1: found the tag !!python/object/apply:os.system; allowed: plain YAML without such tags",
    ),
    (
        "own tag",
        "experiments: !env HOME\n",
        "broken.yaml, line 1: found the tag !env; allowed: plain YAML without such tags",
    ),
    (
        "date that is none",
        "experiments:\n  e: {description: 2017-13-45}\n",
        "broken.yaml, line 2: found '2017-13-45', which is no timestamp; as text it needs quotes",
    ),
    (
        "a mapping that contains itself",
        "experiments: &x\n  e: *x\n",
        "broken.yaml, line 1: found unconstructable recursive node",
    ),
    (
        "@ without quotes",
        "mirror: @home\n",
        "broken.yaml, line 1: found '@'; text that begins with it needs quotes",
    ),
    (
        "indentation by tab",
        "experiments:\n\te: {}\n",
        "broken.yaml, line 2: found a tab; indent with spaces",
    ),
    (
        "alias without anchor",
        "experiments: *x\n",
        "broken.yaml, line 1: found undefined alias 'x'",
    ),
    (
        "control character",
        "experiments: \x00\n",
        "broken.yaml: not valid YAML (unacceptable character #x0000: special characters are not allowed)",
    ),
    (
        "list as a key",
        "experiments:\n  ? [a, b]\n  : 1\n",
        "broken.yaml, line 2: found a list as a key; allowed: a name",
    ),
    (
        "braces of a template",
        "experiments:\n  e:\n    epochs: {{ epochs }}\n",
        "broken.yaml, line 3: found a mapping as a key; allowed: a name",
    ),
    (
        "merge of what is no mapping",
        "experiments:\n  e:\n    <<: 5\n",
        "broken.yaml, line 3: expected a mapping or list of mappings for merging, but found scalar "
        "(while constructing a mapping, begun in line 3)",
    ),
    (
        "two merges",
        "experiments:\n  e: &e {}\n  f:\n    <<: *e\n    <<: *e\n",
        "broken.yaml, line 5: found the key '<<' twice (first in line 4); allowed: each key once",
    ),
    (
        "key twice in what is merged",
        "experiments:\n  e:\n    <<: {seed: 1, seed: 2}\n",
        "broken.yaml, line 3: found the key 'seed' twice (first in line 3); allowed: each key once",
    ),
    (
        "two documents",
        "experiments: {e: {}}\n---\nexperiments: {f: {}}\n",
        "broken.yaml, line 2: found a second document (---); allowed: one",
    ),
    ("list at the top", "- a\n- b\n", "broken.yaml: found a list at the top; allowed: a mapping of keys to values"),
    # --- several at once: every one is listed, by key path
    (
        "several mistakes",
        "mirorr: /data\nexperiments:\n  a: {epochs: [5, 0, -2], repeats: none, seed: 3}\n  b: {devices: [tpu]}\n",
        f"broken.yaml: mirorr: unknown key; allowed: {TOP_KEYS}; did you mean mirror?\n"
        f"broken.yaml: experiments.a.epochs[1]: found 0 (a whole number); allowed: {FROM_1}\n"
        f"broken.yaml: experiments.a.epochs[2]: found -2 (a whole number); allowed: {FROM_1}\n"
        f"broken.yaml: experiments.a.repeats: found 'none' (text); allowed: {REPEATS}\n"
        "broken.yaml: experiments.b.devices[0]: found 'tpu' (text); allowed: cpu, gpu; did you mean gpu?",
    ),
    (
        "several unknown names",
        experiment("recipes: [foo], datasets: [digits, minst], frameworks: [xyz]"),
        in_e("recipes[0]", f"found 'foo' (text); allowed: {RECIPES}\n")
        + in_e("datasets[1]", f"found 'minst' (text); allowed: {DATASETS}; did you mean mnist?\n")
        + in_e("frameworks[0]", f"found 'xyz' (text); allowed: {FRAMEWORKS}"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_the_whole_message(text, expected):
    message = message_of(write(text))
    assert message == expected
    one_line_each(message)


def test_the_table_is_complete():
    assert len(MESSAGES) >= 34
    assert len({name for name, _, _ in MESSAGES}) == len(MESSAGES)


@pytest.mark.parametrize("key", ["recipes", "datasets", "frameworks"])
@pytest.mark.parametrize(("value", "shown"), [("[]", "an empty list"), ("x", "'x' (text)"), ("", "nothing (null)")])
def test_what_is_allowed_in_place_of_a_list_of_names(key, value, shown):
    message = message_of(write(f"experiments:\n  e:\n    {key}: {value}\n"))
    one_line_each(message)
    allowed = {"recipes": "a list of recipe names", "datasets": "a list of dataset names"}
    assert message == in_e(key, f"found {shown}; allowed: {allowed.get(key, 'a list of framework names')}")


@pytest.mark.parametrize("text", ["", "# nothing but a comment\n", "mirror: null\n", "{}\n"])
def test_a_config_without_experiments_is_refused(text):
    message = message_of(write(text))
    one_line_each(message)
    assert "experiments" in message


@pytest.mark.parametrize("name", ["2017", "on", "~", "3.5", '"a\\n"'])
def test_an_experiment_name_that_yaml_does_not_read_as_a_plain_name_is_refused(name):
    message = message_of(write(f"experiments:\n  {name}: {{}}\n"))
    one_line_each(message)
    assert message.startswith(("broken.yaml: experiments", "broken.yaml, line 2: "))


@pytest.mark.parametrize(
    "keys", ["repeats: 3.0", "epochs: [10.0]", "seed: 1.0", "batch_size: 64.0", "step_losses: 5.0"]
)
def test_a_whole_number_with_a_decimal_point_is_an_integer_or_refused(keys):
    """JSON Schema takes 3.0 for an integer; range(1, 4.0) and int('10.0') do not."""
    try:
        config, _ = load_config([Path(write(experiment(keys)))])
    except ConfigError as error:
        one_line_each(str(error))
        assert f"experiments.e.{keys.split(':')[0]}" in str(error)
    else:
        value = config["experiments"]["e"][keys.split(":")[0]]
        assert type(value[0] if isinstance(value, list) else value) is int


@pytest.mark.parametrize("value", [".nan", ".inf"])
def test_a_scale_that_is_no_number_is_refused(value):
    message = message_of(write(experiment(f"input: {{scale: {value}}}")))
    one_line_each(message)
    assert message.startswith("broken.yaml: experiments.e.input.scale: found ")


@pytest.mark.parametrize("crop", ["[24, 24]", "[32, 32]"])
@pytest.mark.parametrize("keys", ["", "recipes: [mnist-mlp-keras], ", "datasets: [digits], "])
def test_a_misfit_is_found_where_recipe_or_dataset_come_from_the_defaults(keys, crop):
    message = message_of(write(experiment(f"{keys}input: {{crop: {crop}}}")))
    one_line_each(message)
    assert "the recipe mnist-mlp-keras does not fit the dataset digits" in message


def test_yaml_merge_keys_work_or_are_refused_in_words():
    """`<<: *anchor` is plain YAML 1.1 that people use to share settings."""
    text = "experiments:\n  a: &a {epochs: [7], seed: 5}\n  b:\n    <<: *a\n    seed: 6\n"
    try:
        config, _ = load_config([Path(write(text))])
    except ConfigError as error:
        assert "line 4" in str(error)
        assert "<<" in str(error), f"the message does not say what is wrong: {error}"
    else:
        assert config["experiments"]["b"]["epochs"] == [7]
        assert config["experiments"]["b"]["seed"] == 6


def test_a_key_twice_beside_a_merge_key_is_still_refused():
    text = "experiments:\n  a: &a {epochs: [7]}\n  b:\n    <<: *a\n    seed: 6\n    seed: 7\n"
    assert message_of(write(text)).startswith("broken.yaml, line ")


# --- files that can't be read -------------------------------------------------------------------------------------


def test_not_utf_8():
    Path("broken.yaml").write_bytes(b"experiments: {e: {description: caf\xe9}}\n")
    assert message_of("broken.yaml") == "broken.yaml: not a text file in UTF-8"


def test_missing_file():
    assert message_of("missing.yaml") == "missing.yaml: there is no such file"


def test_a_folder_in_place_of_a_file():
    Path("broken.yaml").mkdir()
    assert message_of("broken.yaml") == "broken.yaml: found a folder; allowed: a file"


def test_a_file_that_may_not_be_read(monkeypatch):
    """Not by its mode: root may read everything."""

    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    write("experiments: {e: {}}\n")
    monkeypatch.setattr(Path, "read_text", refuse)
    with pytest.raises(ConfigError) as caught:
        read_yaml(Path("broken.yaml"))
    assert str(caught.value) == "broken.yaml: can't be read (Permission denied)"


def test_lists_without_end():
    assert message_of(write("[" * 5000)) == "broken.yaml: not valid YAML (nested too deeply)"


def test_no_file_at_all():
    assert message_of() == f"no config file: {NEITHER}"


def test_what_all_documents_lack_is_blamed_on_the_first():
    write("mirror: m\n", "a.yaml")
    assert message_of("a.yaml", overrides={"mirror": "n"}) == f"a.yaml: {NEITHER}"


def test_a_misfit_names_the_file_of_the_crop():
    write("experiments: {e: {input: {crop: [24, 24]}}}\n", "a.yaml")
    write("experiments: {e: {recipes: [mnist-mlp-flux]}}\n", "b.yaml")
    message = message_of("a.yaml", "b.yaml")
    assert message.startswith(
        "a.yaml: experiments.e.input.crop: the recipe mnist-mlp-flux does not fit the dataset digits"
    )


def test_a_misfit_without_a_crop_names_the_recipe_and_the_datasets_that_fit(schema):
    shapes = {"wide": [1, 28, 30], "colour": [3, 28, 28], "right": [1, 28, 28]}
    catalogue = {name: {"format": "synthetic", "image_shape": shape} for name, shape in shapes.items()}
    config = with_defaults({"experiments": {"e": {"datasets": ["right", "wide"]}}}, schema)
    with pytest.raises(ConfigError) as caught:
        check_fit(config, {"broken.yaml": {"experiments": {"e": {"recipes": ["mnist-mlp-keras"]}}}}, catalogue)
    assert str(caught.value) == in_e(
        "recipes[0]",
        "the recipe mnist-mlp-keras does not fit the dataset wide: it takes inputs of 1 x 28 x 28 "
        "(channels x height x width), and gets 1 x 28 x 30; "
        "allowed: a dataset that fits (right), another recipe, or another input.crop",
    )


def test_a_python_tag_runs_nothing():
    message_of(write("experiments: !!python/object/apply:os.system ['touch owned']\n"))
    assert not Path("owned").exists()


# --- more than one file -------------------------------------------------------------------------------------------


def test_a_later_file_and_the_command_line_take_precedence():
    write("mirror: m\nexperiments: {e: {epochs: [1, 2], repeats: 2, input: {scale: 1, crop: [28, 28]}}}\n", "a.yaml")
    write("experiments: {e: {epochs: [3], input: {scale: 2}}, f: {seed: 4}}\n", "b.yaml")
    files = [Path("a.yaml"), Path("b.yaml")]
    config, _ = load_config(files, {"experiments": {"e": {"input": {"crop": None}, "seed": 9}}})
    assert config["mirror"] == "m"
    assert list(config["experiments"]) == ["e", "f"]
    e, f = config["experiments"]["e"], config["experiments"]["f"]
    assert (e["epochs"], e["repeats"], e["seed"]) == ([3], 2, 9), "a list takes the place of a list, whole"
    assert e["input"] == {"scale": 2, "crop": None}, "mappings are merged key by key"
    assert (f["seed"], f["epochs"]) == (4, [10])


def test_each_finding_names_the_file_that_it_stands_in():
    write("experiments: {e: {epochs: [1, -2], repeat: 2}}\n", "a.yaml")
    write("experiments: {e: {seed: -3}, f: {seed: x}}\n", "b.yaml")
    message = message_of("a.yaml", "b.yaml", overrides={"experiments": {"e": {"repeats": 0}}})
    assert message == (
        f"a.yaml: experiments.e.epochs[1]: found -2 (a whole number); allowed: {FROM_1}\n"
        f"a.yaml: experiments.e.repeat: unknown key; allowed: {EXPERIMENT_KEYS}; did you mean repeats?\n"
        f"b.yaml: experiments.e.seed: found -3 (a whole number); allowed: {FROM_0}\n"
        f"--config: experiments.e.repeats: found 0 (a whole number); allowed: {REPEATS}\n"
        f"b.yaml: experiments.f.seed: found 'x' (text); allowed: {FROM_0}"
    )


def test_a_key_in_both_files_is_blamed_on_the_later_one():
    write("experiments: {e: {epochs: [1, 2]}}\n", "a.yaml")
    write("experiments: {e: {epochs: [0]}}\n", "b.yaml")
    assert message_of("a.yaml", "b.yaml") == (
        f"b.yaml: experiments.e.epochs[0]: found 0 (a whole number); allowed: {FROM_1}"
    )


def test_a_mistake_that_a_later_file_puts_right_is_none():
    write("experiments: {e: {epochs: [0]}}\n", "a.yaml")
    write("experiments: {e: {epochs: [7]}}\n", "b.yaml")
    config, _ = load_config([Path("a.yaml"), Path("b.yaml")])
    assert config["experiments"]["e"]["epochs"] == [7]


def test_a_mistake_on_the_command_line_is_blamed_on_it():
    write("experiments: {e: {}}\n", "a.yaml")
    assert message_of("a.yaml", overrides={"mirror": 3, "epochs": [4]}) == (
        "--config: mirror: found 3 (a whole number); allowed: a folder, a file:// or http(s):// address, or null\n"
        f"--config: epochs: unknown key; allowed: {TOP_KEYS}"
    )


def test_a_name_on_the_command_line_that_is_nothing():
    message = message_of(overrides={"experiments": {None: {"epochs": [0]}}})
    assert message == f"--config: experiments.null: found the name nothing (null); allowed: {NAME}"
