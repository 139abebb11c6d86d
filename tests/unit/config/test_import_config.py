"""import_config.py: files of the original ImageNet recipe become experiment files, and their defects are told.

The samples have the keys and values of the original's own samples, defects included.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from config_messages import assert_says
from harness import REPOSITORY, environment

from trainmark.cluster.site import read_site, scheduler_of
from trainmark.config.load import load_config
from trainmark.config.original import dump, dump_site, import_config
from trainmark.errors import ConfigError

pytestmark = pytest.mark.usefixtures("in_tmp_path")

SCRIPT = str(REPOSITORY / "workflow" / "scripts" / "import_config.py")

SAMPLE = """\
nodetype: q_node
nnodes: 1
walltime: 02:30:00
jobname: imagenet
stdout: $JOB_ID.o.log
stderr: $JOB_ID.e.log
others:
  j: "y"

modules: ./modules.sh

nclasses: 16
mean: mean.npy

arch: resnet50
epoch: 10
batchsize: 128
loaderjob: 8
out: results
resume: null
initmodel: null
test: null

communicator: hierarchical
loadtype: original
iterator: processes
optimizer: adam
"""
VALUES = yaml.safe_load(SAMPLE)
EXPERIMENT = {
    "description": "The ImageNet recipe for TSUBAME, with the settings of config.yaml.",
    "recipes": ["imagenet-resnet50"], "datasets": ["mini-imagenet-16"], "frameworks": ["chainer"], "epochs": [10],
    "repeats": 1, "batch_size": 128, "input": {"subtract_mean": True}, "optimizer": {"rule": "adam"},
    "loader": {"iterator": "process", "jobs": 8, "store": "files"}, "evaluation_batch_size": 250,
}  # fmt: skip
JOB_WORDS = {
    "group": None, "node_type": "q_node", "jobname": "imagenet", "stdout": "$JOB_ID.o.log", "stderr": "$JOB_ID.e.log",
    "others": {"j": "y"},
}  # fmt: skip
SITE = {"options": {"all": JOB_WORDS, "train": {"runtime": 150}}, "modules": "./modules.sh"}


def imported(text: str = SAMPLE, name: str = "config.yaml"):
    Path(name).write_text(text, encoding="utf-8")
    return import_config(Path(name))


def with_values(**changes) -> str:
    """SAMPLE with other values, as YAML; a value of ... leaves the key out."""
    return yaml.safe_dump(
        {key: value for key, value in (VALUES | changes).items() if value is not ...}, sort_keys=False
    )


def experiment_with(**changes) -> dict:
    (experiment,) = imported(with_values(**changes)).document["experiments"].values()
    return experiment


def reports_with(**changes) -> list[str]:
    """What is reported beyond what is reported of SAMPLE, without file and line."""
    usual = {report.partition(": ")[2] for report in imported().reports}
    reports = [report.partition(": ")[2] for report in imported(with_values(**changes)).reports]
    return [report for report in reports if report not in usual]


def as_json(text: str) -> str:
    return json.dumps(yaml.safe_load(text), indent=2)


# --- the samples --------------------------------------------------------------------------------------------------


def test_the_sample_becomes_an_experiment_file():
    sample = imported()
    assert sample.document == {"experiments": {"imagenet": EXPERIMENT}}
    assert sample.site == SITE and sample.folder == "results"
    Path("mine.yaml").write_text(dump(sample, Path("config.yaml")))
    config, catalogue = load_config([Path("mine.yaml")])
    assert config["experiments"]["imagenet"].items() >= EXPERIMENT.items()
    assert catalogue["mini-imagenet-16"]["classes"] == 16


def test_the_words_for_the_profile_are_a_site_file(monkeypatch):
    Path("site.yaml").write_text(dump_site(imported()))
    Path("modules.sh").touch()
    monkeypatch.setenv("TRAINMARK_SITE", "site.yaml")
    assert read_site(scheduler_of("tsubame")).options == SITE["options"]


def test_the_sample_in_json_lacks_a_comma():
    broken = as_json(SAMPLE).replace('"nclasses": 16,', '"nclasses": 16')
    sample = imported(broken, "config.json")
    description = "The ImageNet recipe for TSUBAME, with the settings of config.json."
    assert sample.document == {"experiments": {"imagenet": EXPERIMENT | {"description": description}}}
    line = broken[: broken.index('"nclasses"')].count("\n") + 1
    assert sample.reports[0] == (
        f"config.json, line {line}: a comma is missing at the end of the line; it was read as if it stood there"
    )
    assert imported(as_json(SAMPLE), "config.json").reports == sample.reports[1:]


def test_each_defect_of_the_sample_is_reported_with_its_line():
    assert [report.removeprefix("config.yaml, ") for report in imported().reports] == [
        "line 26: iterator: there is no iterator processes, and the original took the serial one instead; read as "
        "process",
        "line 12: nclasses: the original's head had 1000 outputs whatever nclasses said; here it has 16",
        "line 12: nclasses: the original drew its 16 classes without a seed and kept their numbers; here they are "
        "drawn by a seed and numbered from 0, so that they are other classes",
        "line 13: mean: mean.npy is not read: the mean image of the training images is computed and subtracted "
        "(input.subtract_mean)",
        "line 13: mean: the original always subtracted the top left window of the mean image; here it is the window of "
        "the image (with input: {mean_window: top-left} as there)",
        "line 19: out: the results folder is chosen with snakemake --directory results",
        "line 24: communicator: hierarchical was removed in Chainer 7; several workers here exchange gradients by "
        "pure_nccl on GPUs, and by naive on CPUs",
    ]


# --- settings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        *(({"arch": arch}, {"recipes": [f"imagenet-{arch}"]}) for arch in ("alex", "nin", "googlenet", "googlenetbn")),
        *(({"nclasses": n}, {"datasets": [f"mini-imagenet-{n}"]}) for n in (8, 20)),
        ({"nclasses": 1000}, {"datasets": ["ilsvrc2012"]}),
        ({"loaderjob": None, "iterator": "serial"}, {"loader": {"iterator": "serial", "jobs": None, "store": "files"}}),
        ({"optimizer": "rmsprop"}, {"optimizer": {"rule": "rmsprop"}}),
        ({"optimizer": "rmsprop_warmup"}, {"optimizer": {"rule": "rmsprop_warmup", "legacy": True}}),
        ({"test": True}, {"evaluation_steps": 10}),
        ({"nodetype": "f_node", "nnodes": 2, "batchsize": 32}, {"workers": [8], "batch_size": 256}),
    ],
)
def test_a_setting_becomes_todays(changes, expected):
    assert experiment_with(**changes).items() >= expected.items()


BY_DATASET_DIR = """\
{resource: q_node, node: 2, time: "00:20:00", arch: resnet50, initmodels: /data/init_models, epoch: 4, batchsize: 64,
 working_dir: $HOME/examples, dataset_dir: /data/ILSVRC2012, out: ./results}
"""
BY_LISTS = """\
nnodes: 2
walltime: 05:30:00
lr: 0.001
damping: 0.005
inv_alg: null
nclasses: 1000
train:      /data/labels/train008.txt
train_root: /data/img_train
val:        /data/labels/val008.txt
val_root:   /data/img_val
arch: resnet50
epoch: 10
batchsize: 32
loadtype: development
"""
TRAINED = "arch: nin\nepoch: 1\nbatchsize: 1\n"
ILSVRC = "/data/ILSVRC2012"
OWN_LISTS = {"train": "/data/labels/train008.txt", "test": "/data/labels/val008.txt"}


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        (BY_DATASET_DIR, {"folder": ILSVRC, "lists": {"train": f"{ILSVRC}/train.txt", "test": f"{ILSVRC}/val.txt"}}),
        (BY_LISTS, {"folder": "/data", "lists": OWN_LISTS, "roots": {"train": "img_train", "test": "img_val"}}),
        (BY_LISTS.replace("img_val", "img_train"), {"folder": "/data/img_train", "lists": OWN_LISTS}),
        (
            BY_LISTS.replace("_root", "_folder").replace("train_folder: /data/img_train", "root: ~")
            .replace("val_folder:   /data/img_val", "dataset: $DATA").replace("/data/labels/val008.txt", "null"),
            {"folder": "/mine", "lists": OWN_LISTS | {"test": "/mine/val.txt"}},
        ),
    ],
)  # fmt: skip
def test_lists_of_images_become_a_dataset(text, entry, monkeypatch):
    monkeypatch.setenv("DATA", "/mine")
    document = imported(text).document
    own = {"title": "Images of the lists of the original recipe", "format": "image_list"}
    assert document["datasets"] == {"imagenet-lists": own | entry}
    assert document["experiments"]["imagenet"]["datasets"] == ["imagenet-lists"]
    assert document["experiments"]["imagenet"]["loader"]["store"] == ("memory" if "loadtype" in text else "files")


def test_what_has_no_place_in_an_experiment_is_named_once():
    by_folder = imported(BY_DATASET_DIR)
    sections = {"train": {"nodes": 2, "runtime": 20}, "trace_training": {"nodes": 2}}
    assert by_folder.site == {"options": {"all": {"group": None, "node_type": "q_node"}} | sections}
    for key, words in [
        ("resource", "another version of the original calls it so; read as nodetype"),
        ("initmodels", "/data/init_models/resnet50.npz is a snapshot of Chainer"),
        ("dataset_dir", "the original trained with rmsprop_warmup in the folder of that name"),
        ("working_dir", "not imported, since they are of the original's job"),
    ]:
        assert sum(f": {key}: {words}" in report for report in by_folder.reports) == 1
    of_k_fac = "config.yaml, line 3: lr, damping, inv_alg: not imported, since they are of K-FAC, which is not here; "
    assert [report for report in imported(BY_LISTS).reports if report.startswith(of_k_fac)]
    assert not [report for report in imported(BY_LISTS).reports if "classes without a seed" in report]


def test_other_numbers_of_classes_get_an_entry_and_all_have_no_defects_of_a_part():
    document = imported(with_values(nclasses=20)).document
    entry = {"title": "20 classes of ImageNet", "format": "class_subset", "of": "ilsvrc2012", "classes": 20, "seed": 1}
    assert document["datasets"] == {"mini-imagenet-20": entry}
    assert not [report for report in imported(with_values(nclasses=1000)).reports if ": nclasses:" in report]


def test_only_what_is_trained_is_needed():
    keys = ("arch", "nclasses", "epoch", "batchsize")
    sample = imported(yaml.safe_dump({key: VALUES[key] for key in keys}))
    assert sample.site == {} and sample.folder is None
    assert sample.document["experiments"]["imagenet"]["optimizer"] == {"rule": "momentum_sgd"}


@pytest.mark.parametrize(
    ("changes", "site"),
    [
        ({"walltime": "00:10:01"}, {"train": {"runtime": 11}}),
        ({"others": {"j": True, "p": "-5"}}, {"others": {"j": "y", "p": "-5"}}),
        ({"nodetype": "f_node"}, {"node_type": "f_node"}),
    ],
)
def test_settings_of_the_job_become_words_of_the_profile(changes, site):
    options = imported(with_values(**changes)).site["options"]
    assert (options | options["all"]).items() >= site.items()


# --- defects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "report"),
    [
        ({"resume": "old.npz"}, "resume: the original took no snapshot to resume from; …"),
        ({"initmodel": "r.npz"}, "initmodel: r.npz is a snapshot of Chainer, which is not read; …weights.npz…"),
        ({"test": False}, "test: the original evaluated every 10 iterations for false, too; …"),
        ({"optimizer": "rmsprop_warmup"}, "optimizer: as published, its warm-up overshoots…; …continuous…"),
        (
            {"nodetype": "f_node", "nnodes": 2, "batchsize": 32},
            "batchsize: the original's batches of 32 were those of each of its 8 workers; …of all together, 256",
        ),
        ({"communicator": "two_dimensional"}, "communicator: two_dimensional was removed in Chainer 7; …pure_nccl…"),
        ({"communicator": "flat"}, "communicator: several workers here exchange gradients by pure_nccl on GPUs, …"),
        ({"others": {"j": True}}, "others: j is true in YAML 1.1 without quotes, …-j True; read as j: y"),
        ({"modules": {"cuda": "cuda/8.0"}}, "modules: modules in config/site.yaml names a file; …module load cuda/8.0"),
        ({"vars": "./vars.sh"}, "vars: each job read ./vars.sh; …"),
        ({"mean": None}, "mean: the mean image of the training images is computed…"),
    ],
)
def test_a_planted_defect_is_reported(changes, report):
    (found,) = reports_with(**changes)
    assert_says(found, report, "")


def test_a_time_without_quotes_is_read_as_one():
    sample = imported(SAMPLE.replace("02:30:00", "10:00:00"))
    assert sample.site["options"]["train"] == {"runtime": 600}
    assert sample.reports[1] == (
        "config.yaml, line 3: walltime: 10:00:00 without quotes is the number 36000 in YAML 1.1; read as text, write "
        "'10:00:00'"
    )
    quoted = imported(SAMPLE.replace("02:30:00", "'10:00:00'"))
    assert quoted.site == sample.site and len(quoted.reports) == len(sample.reports) - 1


@pytest.mark.parametrize(("wrong", "right"), [("mean.npy", "mean"), ("nnodetype", "nodetype")])
def test_a_key_of_the_documentation_is_read_as_that_of_the_program(wrong, right):
    sample = imported(
        SAMPLE.replace(f"\n{right}:", f"\n{wrong}:").replace("nodetype: q", f"{wrong}: q", wrong[0] == "n")
    )
    assert sample.document == {"experiments": {"imagenet": EXPERIMENT}} and sample.site == SITE
    assert f"{wrong}: the original's documentation calls it {wrong}, and its program read {right}" in sample.reports[0]


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"arch": "resnet-50"}, "arch: found 'resnet-50' (text); allowed: alex, …, resnet50; did you mean resnet50?"),
        ({"optimizer": "kfac"}, "optimizer: found 'kfac' (text); allowed: momentum_sgd, adam, rmsprop_warmup, rmsprop"),
        (
            {"communicator": "nccl"},
            "communicator: found 'nccl' (text); allowed: pure_nccl, flat, naive and, …; did you mean pure_nccl?",
        ),
        ({"nclasses": 1}, "nclasses: found 1 (a whole number); allowed: a whole number, 2 to 1000"),
        ({"epoch": 0}, "epoch: found 0 (a whole number); …"),
        ({"walltime": "2 hours"}, "walltime: found '2 hours' (text); allowed: hh:mm:ss"),
        ({"test": "yes"}, "test: found 'yes' (text); allowed: true or null; write it without quotes"),
        (
            {"foo": 1, "resume_from": None, "batchsizes": 3},
            "foo: unknown key\nresume_from: unknown key\nbatchsizes: unknown key; …; did you mean batchsize?",
        ),
        ({"arch": ...}, "top level: lacks the key arch; …"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(changes, expected):
    text = with_values(**changes)
    for name in ("config.yaml", "config.json"):
        with pytest.raises(ConfigError) as caught:
            imported(as_json(text) if name.endswith("json") else text, name)
        assert_says(str(caught.value), expected, f"{name}: ")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.json", '{"nclasses": 16 8}', "c.json, line 1, column 17: not valid JSON (Expecting ',' delimiter)"),
        ("c.json", '{"epoch": 1,\n"a"}', "c.json, line 2, column 4: not valid JSON (Expecting ':' delimiter)"),
        ("c.json", '{"epoch": 1, "epoch": 2}', "c.json: found the key 'epoch' twice; allowed: each key once"),
        ("c.json", "[1]", "c.json: found a list at the top; allowed: a mapping of keys to values"),
        ("c.yaml", "", "c.yaml: found nothing at the top; allowed: a mapping of keys to values"),
        ("c.yaml", "arch: !!python/object/apply:os.system ['touch owned']", "c.yaml, line 1: found the tag !!python"),
        ("c.yaml", "mean: a\nmean.npy: b", "c.yaml, line 2: found both mean and mean.npy, which mean the same"),
        ("c.yaml", "node: 1\nnnodes: 1", "c.yaml, line 1: found both nnodes and node, which mean the same"),
        ("c.yaml", f"{TRAINED}train: a\nnclasses: 8", "c.yaml: its images are not named; allowed: nclasses, dataset"),
        ("c.yaml", TRAINED, "c.yaml: its images are not named; allowed: nclasses, dataset_dir, or both train and val"),
    ],
)
def test_a_file_that_is_not_right_is_refused(name, text, message):
    with pytest.raises(ConfigError) as caught:
        imported(text, name)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert not Path("owned").exists()


# --- the script ---------------------------------------------------------------------------------------------------


def run(*options):
    command = [sys.executable, SCRIPT, *options]
    return subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)


def test_the_script_writes_the_experiment_and_tells_the_rest_and_replaces_no_file():
    Path("config.yaml").write_text(SAMPLE)
    printed = run("config.yaml", "--name", "mine")
    assert printed.returncode == 0, printed.stderr
    assert yaml.safe_load(printed.stdout) == {"experiments": {"mine": EXPERIMENT}}
    lines = printed.stderr.splitlines()
    assert lines[0].startswith("config.yaml, line 26: iterator:")
    site = lines.index("for config/site.yaml of profiles/tsubame (docs/clusters.md), with your group:")
    assert yaml.safe_load("\n".join(lines[site + 1 :])) == SITE
    written = run("config.yaml", "--name", "mine", "--out", "mine.yaml")
    assert (written.returncode, written.stdout, written.stderr) == (0, "", printed.stderr)
    assert Path("mine.yaml").read_text() == printed.stdout
    refused = run("config.yaml", "--name", "My run")
    assert refused.returncode == 1 and "found the name 'My run' (text); allowed: lower-case letters" in refused.stderr
    refused = run("config.yaml", "--out", "mine.yaml")
    assert (refused.returncode, Path("mine.yaml").read_text()) == (1, printed.stdout)
    assert refused.stderr == "ConfigError: mine.yaml: not written (File exists); choose another file name\n"
