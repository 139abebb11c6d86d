"""verify.py on a results folder: an unchanged one has no problems; each edit is named in one line, no traceback."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from harness import REPOSITORY
from records_for_tests import (
    certificate_of,
    changed,
    disturbed,
    evaluation_entry,
    held_from,
    place_of,
    record,
    resealed,
)

from trainmark.config.load import keys_that_decide, load_config
from trainmark.datasets.catalogue import SPLITS
from trainmark.datasets.prepare import prepare
from trainmark.datasets.samples import Arrays
from trainmark.errors import DataError
from trainmark.files.checksums import sha256_of
from trainmark.files.seal import sealed
from trainmark.paper.kit import make_kit
from trainmark.plan.figures import FIGURE_FORMATS, known_figures
from trainmark.plan.jobs import make_plan
from trainmark.plan.matrix import expand_runs
from trainmark.plan.plan_file import write_plan
from trainmark.records.evaluation import write_evaluation
from trainmark.report import remade
from trainmark.report.collected import collected, write_tables
from trainmark.report.figures.data import read_data
from trainmark.report.figures.options import FigureOptions
from trainmark.report.figures.save import laid_out, save_figures, write_figure
from trainmark.report.page import render
from trainmark.tables.sections import read_results
from trainmark.trainer import Trainer
from trainmark.verification.results import verify_results

CONFIG = {
    "experiments": {
        "e": {
            "recipes": ["mnist-mlp-flux"], "frameworks": ["chainer", "keras-jax"], "devices": ["cpu"], "epochs": [2],
            "repeats": 2,
        }
    },
    "figures": {"size": 8, "trainers": ["keras-jax-cpu", "chainer-cpu"]},
    "claims": [{"says": "All pairs are certified.", "pairs": "certified"}],
}  # fmt: skip
GROUP = ("e", "mnist-mlp-flux", "digits")
CHECKED, CATALOGUE = load_config([], CONFIG)
PLAN = make_plan(CHECKED, CATALOGUE)
SETTINGS = PLAN["jobs"]["e/mnist-mlp-flux/digits/chainer-cpu"]["settings"]
ONE_ID, OTHER_ID = (f"e/mnist-mlp-flux/digits/chainer-cpu/epochs-2/repeat-{repeat}" for repeat in (1, 2))
ONE, OTHER = (str(Path(place_of(record(repeat=repeat, settings=SETTINGS))).parent) for repeat in (1, 2))
CERTIFICATE = PLAN["certificates"]["/".join(GROUP)]["file"]
EVALUATION, OTHER_EVALUATION = (
    PLAN["evaluations"][f"{'/'.join(GROUP)}/{name}-cpu"]["file"] for name in ("keras-jax", "chainer")
)
DATASET = PLAN["datasets"]["digits"]["folder"]
FIGURES = "figures/e/mnist-mlp-flux/digits"
NUMBER_OF_FIGURES = len(FIGURE_FORMATS) * len(known_figures())
PREPARED = f"{DATASET}/prepared"


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """A results folder as a workflow leaves it."""
    folder = tmp_path_factory.mktemp("untouched") / "results"
    arrays = {
        split: (np.arange(count * 64, dtype=np.uint32).astype(np.uint8).reshape(count, 1, 8, 8), np.arange(count) % 10)
        for split, count in zip(SPLITS, (1438, 360), strict=True)
    }
    entry = {"title": "Digits", "format": "digits", "classes": 10, "image_shape": [1, 8, 8]}
    manifest = prepare(folder / PREPARED, "digits", entry, Arrays(arrays, list("0123456789")), [], 1)
    np.save(folder / DATASET / "mean.npy", np.zeros((1, 8, 8)))
    (folder / DATASET / "mean.png").write_bytes(b"a picture")
    records = []
    for number, run in enumerate(expand_runs(CHECKED)):
        framework, loss, seconds = run.trainer.framework, 0.5 + run.repeat / 64, 0.25 + number / 64
        made = record(framework, run.repeat, loss=loss, seconds=seconds, settings=SETTINGS)
        file = folder / place_of(made)
        file.parent.mkdir(parents=True)
        file.with_name("weights.npz").write_bytes(f"weights {number}".encode())
        made = held_from(made, 10.0 * number)
        made["dataset"]["content_sha256"] = manifest["content_sha256"]
        made["dataset"]["mean_sha256"] = sha256_of(folder / DATASET / "mean.npy")
        made["weights"]["sha256"] = sha256_of(file.with_name("weights.npz"))
        records.append(resealed(made))
        file.write_text(json.dumps(records[-1]))
    certificate = certificate_of(GROUP, [Trainer("chainer", "cpu"), Trainer("keras-jax", "cpu")], {})
    certified = {key: SETTINGS[key] for key in keys_that_decide(["training"])}
    of_data = {"settings.dataset_sha256": manifest["content_sha256"], "settings.experiment": certified}
    write_json(folder / CERTIFICATE, changed(certificate, of_data))
    for evaluator, evaluated in (("chainer", "keras-jax"), ("keras-jax", "chainer")):
        entries = {
            one["run"]["id"]: evaluation_entry(one, trainer=f"{evaluator}-cpu")
            for one in records
            if one["run"]["framework"] == evaluated
        }
        about = {"trainer": f"{evaluator}-cpu", "runs": entries}
        write_evaluation(about, folder / (EVALUATION if evaluator == "keras-jax" else OTHER_EVALUATION))
    write_plan(folder / "plan.json", PLAN | {"records": {one["run"]["id"]: place_of(one) for one in records}})
    remake(folder)
    return folder


def content(path):
    return json.loads(path.read_text())


def remake(folder, draws=True):
    """Write tables, figures and report from the records in the folder, as `snakemake` would."""
    plan = content(folder / "plan.json")
    write_tables(*collected(plan, folder), plan, folder / "tables")
    page = folder / "report" / "index.html"
    page.parent.mkdir(exist_ok=True)
    if draws:
        (section,) = read_results(folder).sections
        save_figures(read_data(section, folder, FigureOptions(size=8)), folder / FIGURES, known_figures())
    texts = render(read_results(folder))
    for file, text in zip((page, folder / "summary.json"), texts, strict=True):
        file.write_text(text)


def write_json(path, document):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))


@pytest.fixture
def folder(untouched, tmp_path):
    return shutil.copytree(untouched, tmp_path / "results")


DRAWN_AGAIN = ("loss.svg", "loss.caption.tex")


@pytest.fixture
def light(folder, monkeypatch):
    """The folder, of whose figures verifying draws only one again."""

    def save_one(data, again, names):
        shutil.copytree(folder / FIGURES, again, ignore=shutil.ignore_patterns("faster*"))
        drawn = laid_out("loss", data)
        for name in DRAWN_AGAIN:
            write_figure(drawn, again / name)

    monkeypatch.setattr(remade, "save_figures", save_one)
    return folder


def test_an_unchanged_folder_has_no_problems_and_its_code_and_config_are_told(untouched):
    found = verify_results(untouched, data=True)
    assert found.problems == []
    checked = {kind: count["checked"] for kind, count in found.counts.items()}
    assert checked == {
        "plan": 1, "record": 4, "weights": 4, "dataset": 1, "campaign": 1, "table": 5, "figure": NUMBER_OF_FIGURES,
        "report": 2,
    }  # fmt: skip
    assert found.facts == ["4 records of experiment e (default settings), by other code than this clone's, outside git"]


def test_what_a_mac_adds_and_weights_removed_after_their_evaluation_are_no_problem(folder):
    for path in [*folder.rglob("*")]:
        path.with_name(f"._{path.name}").write_bytes(b"\0\5\x16\7")
        path.with_name(".DS_Store").write_bytes(b"\0")
    remove_weights(folder)
    found = verify_results(folder, data=True)
    assert found.problems == []
    assert found.counts["figure"]["checked"] == NUMBER_OF_FIGURES
    assert "weights of 1 run removed after their evaluation" in found.facts


def test_the_paper_is_checked_but_for_figures_of_another_matplotlib_and_the_users_files(light, monkeypatch):
    monkeypatch.setattr("trainmark.paper.kit.known_figures", lambda: ["loss"])
    make_kit(light, light / "paper")
    (light / "paper" / "own.tex").write_text("mine")
    figure, numbers = light / "paper" / FIGURES / "loss.pdf", light / "paper" / "numbers.tex"
    figure.write_bytes(b"%PDF by another matplotlib")
    assert verify_results(light, data=False).problems == []
    numbers.write_text(numbers.read_text().replace("1", "2", 1))
    (problem,) = verify_results(light, data=False).problems
    assert problem.startswith(f"{numbers} is not what this clone makes of the records")


def test_what_cannot_be_compared_is_told(folder):
    """A figure of another matplotlib, those of an earlier config, and a report whose datasets were not sent along."""
    figure = folder / FIGURES / "loss.png"
    earlier = folder / FIGURES.replace("/e/", "/earlier/") / "loss.png"
    earlier.parent.mkdir(parents=True)
    shutil.copy(figure, earlier)
    figure.write_bytes(figure.read_bytes().replace(matplotlib.__version__.encode(), b"0.1"))
    shutil.rmtree(folder / "datasets")
    write_json(folder / "paper" / "files.json", ["files.json"])
    found = verify_results(folder, data=True)
    assert found.problems == []
    assert found.facts[:2] == [
        "not compared: 1 figures, drawn by another matplotlib or font",
        f"{earlier} is of no run in plan.json, and in no report",
    ]
    assert "report" not in found.counts


def edit(changes, renewed=True, path=f"{ONE}/record.json"):
    """An attack that edits a JSON file. renewed: its digests are recomputed."""

    def attack(folder):
        document = content(folder / path)
        digest = document.get("sha256")
        document = changed(document, changes)
        write_json(folder / path, document if renewed else document | {"sha256": digest})

    return attack


def copy(source, target):
    return lambda folder: shutil.copy(folder / source, folder / target)


def write(path, content):
    def do(folder):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)

    return do


def replace(path, old, new):
    return lambda folder: (folder / path).write_text((folder / path).read_text().replace(old, new))


def delete(path):
    return lambda folder: (folder / path).unlink()


def leave_a_run_out(folder):
    """Remove one run from plan and results."""
    plan = content(folder / "plan.json")
    shutil.rmtree(folder / ONE)
    plan["order"].remove(ONE_ID)
    del plan["records"][ONE_ID]
    write_json(folder / "plan.json", plan)


def leave_an_evaluation_out(folder):
    """Remove the evaluation of one run's weights."""
    path = folder / EVALUATION
    found = content(path)
    write_json(path, sealed(found | {"runs": {ONE_ID: found["runs"][ONE_ID]}}))


def remove_weights(folder, run=ONE, **changes):
    """Remove a run's weights as the trainer does that evaluated them. changes: of the entry that it leaves."""
    run_id = ONE_ID if run == ONE else OTHER_ID
    evaluation = content(folder / EVALUATION)
    left = {**evaluation, "runs": {run_id: evaluation["runs"][run_id] | changes}}
    write_evaluation(left, folder / run / "evaluation.json")
    (folder / run / "weights.npz").unlink()


def remove_weights_with_the_entry_of_another_run(folder):
    remove_weights(folder)
    shutil.copy(folder / ONE / "evaluation.json", folder / OTHER / "evaluation.json")
    (folder / OTHER / "weights.npz").unlink()


def edit_arrays(folder):
    """Edit an array and its SHA-256 in the manifest, and nothing else."""
    file = folder / PREPARED / "train_images.npy"
    np.save(file, 255 - np.load(file))
    manifest = content(folder / PREPARED / "manifest.json")
    manifest["arrays"]["train_images"]["sha256"] = sha256_of(file)
    write_json(folder / PREPARED / "manifest.json", sealed(manifest))


def copy_and_remake(folder):
    """Copy a record over another, with its run's id, repeat and digests edited."""
    document = content(folder / ONE / "record.json")
    document["run"] |= {"id": OTHER_ID, "repeat": 2}
    write_json(folder / OTHER / "record.json", resealed(document))
    shutil.copy(folder / ONE / "weights.npz", folder / OTHER / "weights.npz")


def train_with_another_seed(folder):
    """Put a record of another seed where its key belongs, and name it in the plan."""
    plan, document = content(folder / "plan.json"), changed(content(folder / ONE / "record.json"), {"settings.seed": 2})
    plan["records"][ONE_ID] = place_of(document)
    write_json(folder / place_of(document), document)
    write_json(folder / "plan.json", plan)


def call_a_run_missing(folder):
    plan = content(folder / "plan.json")
    run_id, _ = plan["records"].popitem()
    write_json(folder / "plan.json", plan | {"missing": {run_id: "bad luck"}})


ATTACKS = {
    "accuracy": (edit({"result.test_accuracy": 0.99}, renewed=False), "was changed after it was written"),
    "a record over another": (copy(f"{ONE}/record.json", f"{OTHER}/record.json"), "is the record of another run"),
    "a record over another, edited": (copy_and_remake, "say that one process trained both"),
    "a record deleted": (delete(f"{ONE}/record.json"), "there is no such record"),
    "another seed": (edit({"settings.seed": 2}), "is the record of another run"),
    "another seed, at its place": (train_with_another_seed, "was trained with seed: 2, but plan.json has seed: 1"),
    "steps of a terminal": (edit({"run.id": "\x1b[2J\nfine"}), "is the record of another run"),
    "another dataset": (edit({"dataset.content_sha256": "0" * 64}), "prepared is not the dataset that the run e/"),
    "weights": (copy(f"{ONE}/weights.npz", f"{OTHER}/weights.npz"), "its SHA-256 is not the one in the record"),
    "weights deleted": (delete(f"{ONE}/weights.npz"), "of the weights of a run, is missing"),
    "weights deleted, with the entry of another run": (
        remove_weights_with_the_entry_of_another_run,
        f"{OTHER}/weights.npz, of the weights of a run, is missing",
    ),
    "weights deleted, with an edited entry": (
        lambda folder: (remove_weights(folder), replace(f"{ONE}/evaluation.json", "0.75", "0.85")(folder)),
        "evaluation.json was changed after it was written",
    ),
    "a certificate of other data": (
        edit({"settings.dataset_sha256": "0" * 64}, path=CERTIFICATE), "was made with the dataset_sha256 000",
    ),
    "an evaluation of other weights": (
        edit(
            {f"runs.{ONE_ID}.weights_sha256": "0" * 64}, path=EVALUATION
        ),
        "is not what this clone makes",
    ),
    "an evaluation": (
        edit({"trainer": "x-cpu"}, renewed=False, path=EVALUATION),
        f"{EVALUATION} was changed after",
    ),
    "a disturbance hidden": (
        edit(disturbed(foreign_seconds=0.94) | {"disturbed": None}), "its disturbances do not follow from",
    ),
    "counts": (edit({"counted.updates": 29}), "contradicts itself: its framework counted {"),
    "numbers.csv": (replace("tables/numbers.csv", "0.75", "0.85"), "numbers.csv is not what this clone makes"),
    "runs.parquet": (copy("tables/curves.parquet", "tables/runs.parquet"), "runs.parquet is not what this clone"),
    "no parquet": (write("tables/runs.parquet", b"nonsense"), "runs.parquet: can't be read as a table"),
    "a table deleted": (delete("tables/parity.csv"), "parity.csv is missing; run snakemake again"),
    "the page": (
        replace("report/index.html", "too few for a verdict", "2.0 times faster"), "index.html is not what this clone",
    ),
    "its summary": (replace("summary.json", '"ok": ', '"ok": 1'), "summary.json is not what this clone makes"),
    "a figure": (replace(f"{FIGURES}/loss.svg", "path", "g"), "loss.svg is not what this clone makes"),
    "a figure of one's own": (write(f"{FIGURES}/faster.png", b"PNG"), "faster.png is not a figure of trainmark"),
    "a device in place of a record": (
        lambda folder: (delete(f"{ONE}/record.json")(folder), (folder / ONE / "record.json").symlink_to("/dev/zero")),
        "record.json is neither file nor folder",
    ),
    "a cross-evaluation over another": (
        copy(OTHER_EVALUATION, EVALUATION),
        "keras-jax-cpu was made by chainer on cpu, not by keras-jax on cpu: it was copied or moved",
    ),
    "a run that is not evaluated": (leave_an_evaluation_out, "no other trainer evaluated the weights of the run e/"),
    "a title": (replace(f"{PREPARED}/manifest.json", "Digits", "Letters"), "manifest.json was changed after it was"),
    "a run left out": (leave_a_run_out, "plan.json: its runs are not the runs of its config"),
    "no plan": (delete("plan.json"), "there is no plan"),
    "a plan of wrong types": (
        write("plan.json", b'{"config": 1, "records": {}, "jobs": {}, "order": 3}'), "can't be read as a plan",
    ),
    "a plan with a number as a path": (
        edit({f"records.{ONE_ID}": 1}, path="plan.json"), "can't be read as a plan",
    ),
    "a plan without datasets": (edit({"datasets": ...}, path="plan.json"), "can't be read as a plan"),
    "a run that is called missing": (call_a_run_missing, "Missing: 1 of 4 runs."),
    "the mean image": (
        lambda folder: np.save(folder / DATASET / "mean.npy", np.ones((1, 8, 8))),
        "mean.npy is not the mean image that the run e/",
    ),
    "arrays": (edit_arrays, "the content_sha256 of the manifest is not that of the arrays"),
    "labels": (
        lambda folder: np.save(folder / PREPARED / "train_labels.npy", np.zeros(3, int)), "train_labels.npy is damaged",
    ),
}  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_is_a_named_problem(light, attack):
    do, says = ATTACKS[attack]
    do(light)
    found = verify_results(light, data=True)
    assert any(says in problem for problem in found.problems), found.problems


def test_a_forger_of_an_entry_hides_no_more_than_one_who_says_that_no_weights_were_kept(light):
    """A limit (docs/comparing.md): weights can be withheld, whatever an entry says, by a record that names none."""
    forged = evaluation_entry(content(light / ONE / "record.json"), trainer="keras-jax-cpu")
    remove_weights(light, **forged)
    edit({"weights": None}, path=f"{OTHER}/record.json")(light)
    (light / OTHER / "weights.npz").unlink()
    remake(light, draws=False)
    assert verify_results(light, data=True).problems == []


def run_verify(*arguments):
    command = [sys.executable, str(REPOSITORY / "workflow/scripts/verify.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_exit_status_is_0_only_without_problems(folder):
    untouched = run_verify(folder)
    assert (untouched.returncode, untouched.stderr) == (0, "")
    assert untouched.stdout.splitlines()[0] == f"no problems in {folder}"
    assert "record: 4 checked, none wrong" in untouched.stdout.splitlines()
    ATTACKS["steps of a terminal"][0](folder)
    tampered = run_verify(folder)
    assert (tampered.returncode, tampered.stderr) == (1, "")
    assert "\x1b" not in tampered.stdout
    assert tampered.stdout.splitlines()[0] == f"1 problem in {folder}"
    assert "record: 4 checked, 1 wrong" in tampered.stdout.splitlines()
    assert tampered.stdout.splitlines()[1].startswith(str(folder / ONE))


def test_a_folder_without_results_is_refused(tmp_path):
    with pytest.raises(DataError, match="is not a results folder: it holds no runs, certificates, tables or datasets"):
        verify_results(tmp_path, data=False)


def test_a_folder_whose_last_call_had_no_experiments_has_no_problems(tmp_path):
    write_plan(tmp_path / "plan.json", make_plan(*load_config([], {"prepare": ["digits"]})))
    (tmp_path / "runs").mkdir()
    verified = verify_results(tmp_path, data=False)
    assert verified.problems == [] and "no run was checked" in " ".join(verified.facts)


def test_help_says_what_it_does():
    assert "Verify a results folder, also somebody else's" in run_verify("--help").stdout
