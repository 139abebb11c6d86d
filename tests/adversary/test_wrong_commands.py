"""Wrong configs and commands, as a user types them: none hangs, ends in a traceback or is accepted silently.

Each is a real command in a folder of its own, with the words that its last lines must hold.
"""

import subprocess
import sys

import pytest
from harness import REPOSITORY, environment

pytestmark = pytest.mark.adversary

SCRIPTS = REPOSITORY / "workflow" / "scripts"
EXPERIMENT = "experiments:\n  e:\n    "


CONFIGS = {
    "an empty file": ("", "lacks the key experiments or prepare"),
    "a comment alone": ("# later\n", "lacks the key experiments or prepare"),
    "a list": ("- a\n", "found a list at the top"),
    "a word": ("digits\n", "found text at the top"),
    "JSON that is cut": ('{"experiments": {"e": {', "expected the node content"),
    "a tab": ("experiments:\n\te: {}\n", "line 2: found character"),
    "an expression": ("experiments: {e: {epochs: [{{ 5 }}]}}\n", "found unhashable key"),
    "a tag": ("prepare: !!python/object/apply:os.getcwd []\n", "could not determine a constructor"),
    "two documents": ("prepare: [digits]\n---\nprepare: [mnist]\n", "found another document"),
    "a Windows file": (b"\xff\xfep\x00r\x00", "not valid YAML"),
    "an image": (b"\x89PNG\r\n\x1a\n\x00\xff", "not valid YAML"),
    "zeros": (b"\x00" * 100, "not valid YAML"),
    "no experiment": ("experiments: {}\n", "found an empty mapping"),
    "an experiment without a name": ("experiments: [{epochs: [1]}]\n", "experiments: found"),
    "a name with a space": ("experiments: {my first: {}}\n", "found the name 'my first'"),
    "a name from above": ("experiments: {../../etc: {}}\n", "found the name '../../etc'"),
    "a key twice": (EXPERIMENT + "epochs: [1]\n    epochs: [2]\n", "line 4: found the key 'epochs' twice"),
    "cuda": (EXPERIMENT + "devices: [cuda]\n", "line 3: experiments.e.devices[0]: found 'cuda'"),
    "pytorch": (EXPERIMENT + "frameworks: [pytorch]\n", "did you mean torch?"),
    "tensorflow": (EXPERIMENT + "frameworks: [tensorflow]\n", "did you mean keras-tensorflow?"),
    "Keras": (EXPERIMENT + "frameworks: [Keras]\n", "did you mean keras-tensorflow?"),
    "one framework without brackets": (EXPERIMENT + "frameworks: chainer\n", "write [chainer]"),
    "a framework of nobody": (EXPERIMENT + "frameworks: [caffe]\n", "found 'caffe' (text); allowed: chainer"),
    "a framework twice": (EXPERIMENT + "frameworks: [chainer, chainer]\n", "found 'chainer' (text) twice"),
    "a dataset with a typo": (EXPERIMENT + "datasets: [minst]\n", "did you mean mnist?"),
    "a dataset of image files": (EXPERIMENT + "datasets: [imagenette]\n", "does not fit the dataset imagenette"),
    "texts for a network of images": (EXPERIMENT + "datasets: [imdb]\n", "does not fit the dataset imdb"),
    "a recipe of texts on images": (EXPERIMENT + "recipes: [imdb-cnn]\n", "does not fit the dataset digits"),
    "an ImageNet recipe on digits": (EXPERIMENT + "recipes: [imagenet-alex]\n", "a dataset that fits (imagenette-160"),
    "a recipe with a typo": (EXPERIMENT + "recipes: [mnist-mpl-keras]\n", "did you mean mnist-mlp-keras?"),
    "epochs that are none": (EXPERIMENT + "epochs: []\n", "found an empty list"),
    "no epoch": (EXPERIMENT + "epochs: [0]\n", "found 0 (a whole number)"),
    "half an epoch": (EXPERIMENT + "epochs: [0.5]\n", "found 0.5 (a number)"),
    "epochs by a word": (EXPERIMENT + "epochs: [ten]\n", "found 'ten' (text)"),
    "a million runs": (EXPERIMENT + f"repeats: 10000\n    epochs: {list(range(1, 101))}\n", "at most 100,000"),
    "repeats that are endless": (EXPERIMENT + "repeats: 1000000\n", "allowed: a whole number, 1 to 10000"),
    "a seed below 0": (EXPERIMENT + "seed: -1\n", "allowed: a whole number, 0 or more"),
    "a batch above the training set": (EXPERIMENT + "batch_size: 5000\n", "allowed: full, or a whole number, 1 to 14"),
    "a learning rate": (EXPERIMENT + "learning_rate: 0.1\n", "learning_rate: unknown key"),
    "a memory limit with a unit": (EXPERIMENT + "memory_limit_mib: 4GB\n", "found '4GB' (text)"),
    "weights that are kept by a word": (EXPERIMENT + "keep_weights: maybe\n", "found 'maybe' (text)"),
    "a crop that is too large": (EXPERIMENT + "input: {crop: [32, 32]}\n", "does not fit the dataset digits"),
    "a mirror that is not there": ("mirror: /no/such/folder\nprepare: [mnist]\n", "which is not an existing folder"),
    "a mirror of another kind": ("mirror: ftp://example.org\nprepare: [mnist]\n", "an address with an unknown scheme"),
    "offline by a number": ("offline: 1\nprepare: [mnist]\n", "offline: found 1 (a whole number); allowed: true"),
    "an own dataset without its shape": ("datasets: {x: {title: X, format: npz, folder: y}}\n", "lacks the key"),
    "an own dataset in HDF5": ("datasets: {x: {title: X, format: hdf5}}\nprepare: [x]\n", "found 'hdf5'"),
    "Snakemake's own expressions": ("__use_yte__: true\nprepare: [digits]\n", "__use_yte__: unknown key"),
}  # fmt: skip

PYTHON = [sys.executable]
SNAKEMAKE = ["snakemake", "--snakefile", str(REPOSITORY / "Snakefile"), "--cores", "1"]
COMMANDS = {
    "no such config": ([*PYTHON, SCRIPTS / "validate.py", "none.yaml"], "can't be read (No such file"),
    "a folder as config": ([*PYTHON, SCRIPTS / "validate.py", "."], "can't be read (Is a directory)"),
    "an option that is none": ([*PYTHON, SCRIPTS / "validate.py", "--kyes"], "unrecognized arguments: --kyes"),
    "a framework by --config": ([*SNAKEMAKE, "--config", "frameworks=[chainer]"], "--config: frameworks: unknown key"),
    "offline=maybe": ([*SNAKEMAKE, "--config", "offline=maybe"], "found 'maybe' (text); allowed: true or false"),
    "a GPU that is not there": ([*SNAKEMAKE, "--config", "experiments={e: {devices: [gpu]}}"], "asks for the"),
    "no run to predict with": ([*PYTHON, SCRIPTS / "predict.py", "nowhere"], "RecordError: "),
    "a folder that holds no results": ([*PYTHON, SCRIPTS / "verify.py", "."], "is not a results folder"),
    "data that are not there": ([*PYTHON, SCRIPTS / "describe_dataset.py", "x", "nowhere"], "DataError: "),
    "data that are none": ([*PYTHON, SCRIPTS / "describe_dataset.py", "x", __file__], "DataError: "),
}  # fmt: skip


def refused(command, folder):
    """What a command printed that failed within a minute, without a traceback."""
    process = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment(CUDA_VISIBLE_DEVICES=""), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    printed = process.stdout + process.stderr
    assert process.returncode in (1, 2), printed
    assert "Traceback" not in printed
    assert 'File "' not in printed
    return printed


@pytest.mark.parametrize("name", CONFIGS)
def test_a_wrong_config(name, tmp_path):
    content, words = CONFIGS[name]
    (tmp_path / "my.yaml").write_bytes(content if isinstance(content, bytes) else content.encode())
    assert words in refused([*PYTHON, SCRIPTS / "validate.py", "my.yaml"], tmp_path)
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_command(name, tmp_path):
    command, words = COMMANDS[name]
    assert words in refused(command, tmp_path)
