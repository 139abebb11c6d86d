"""compare.py on campaigns that nobody trained: what may be claimed, which differences are found, what is refused."""

import json
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from campaigns_for_tests import write_other
from harness import REPOSITORY
from messages import message_of

from trainmark.campaigns.differences import NOT_SLOWER, SLOWER, UNDECIDED, compare, judged
from trainmark.campaigns.folders import read_campaigns
from trainmark.campaigns.presented import as_page, document
from trainmark.campaigns.sameness import CIRCUMSTANCES
from trainmark.files.checksums import sha256_of
from trainmark.tables.bounds import LEAST
from trainmark.tables.metrics import COMPARED

LATER = "2026-02-02T00:00:00+00:00"


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """The results folder of the first campaign."""
    return write_other(tmp_path_factory.mktemp("first") / "results")


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """That of the same campaign, trained again."""
    return write_other(tmp_path_factory.mktemp("again") / "results", seed=1, began=LATER)


@pytest.fixture
def both(first, again):
    """Both campaigns."""
    return read_campaigns([first, again])


def with_columns(campaign, **columns):
    """A campaign whose runs have these values."""
    return replace(campaign, runs=campaign.runs.assign(**columns))


def slowed(campaign, factor):
    """A campaign that took so many times as long."""
    times = [name for name in COMPARED if name.endswith("seconds")]
    return with_columns(campaign, **{name: campaign.runs[name] * factor for name in times})


def with_settings(campaign, **settings):
    """A campaign that was trained with these settings."""
    trained = {of: {**one, "settings": {**one["settings"], **settings}} for of, one in campaign.trained.items()}
    return replace(campaign, trained=trained)


def verdicts_of(comparison, metric="training_seconds"):
    """The verdicts by a metric, by framework."""
    return {row["framework"]: row["verdict"] for row in comparison.rows if row["metric"] == metric}


def test_the_same_campaign_twice_is_not_distinguishable(both):
    comparison = compare(*both)
    assert {row["verdict"] for row in comparison.rows} == {"not distinguishable"}
    assert [one.partition(":")[0] for one in comparison.claims] == ["Nothing that is recorded changed"]


@pytest.mark.parametrize(("factor", "verdict"), [(1.1, "slower"), (0.9, "faster")])
def test_a_slower_and_a_faster_campaign_are_told_apart(both, factor, verdict):
    comparison = compare(both[0], slowed(both[1], factor))
    assert verdicts_of(comparison) == {"chainer": verdict, "keras-jax": verdict}
    assert verdicts_of(comparison, "test_loss") == {
        "chainer": "not distinguishable",
        "keras-jax": "not distinguishable",
    }
    assert all(row["low"] < factor < row["high"] for row in comparison.rows if row["metric"].endswith("seconds"))


@pytest.mark.parametrize("what", ["processor", "host", "threads", "python", "system", "environment variables", "code"])
def test_one_change_is_what_a_difference_may_be_ascribed_to(both, what):
    (claim,) = compare(both[0], with_columns(both[1], **{CIRCUMSTANCES[what]: "other"})).claims
    assert claim.startswith(f"A difference may be ascribed to one change: {what} from ")


def test_of_several_changes_each_is_named_but_none_is_the_cause(both):
    one, other = both[0], with_columns(both[1], python="3.14", packages_sha256="f" * 64, versions="jax 0.12, numpy 2")
    (claim,) = compare(with_columns(one, versions="jax 0.10, numpy 2"), with_settings(other, checkpoint_steps=7)).claims
    begin, _, changes = claim.partition(": ")
    assert begin == "A difference may be ascribed to these changes together, not to one of them"
    assert changes.startswith(
        "other settings from checkpoint_steps: 100 to checkpoint_steps: 7, python from 3.11 to 3.14"
    )
    assert " and jax from 0.10 to 0.12. Unknown: " in changes


def test_another_seed_changes_no_claim_and_unpairs_the_results(both):
    comparison = compare(both[0], with_settings(both[1], seed=2))
    assert [one.partition(":")[0] for one in comparison.claims] == ["Nothing that is recorded changed"]
    assert not comparison.settings[0].same_seed


@pytest.mark.parametrize(("name", "value"), [("batch_size", 64), ("optimizer", {"learning_rate": 0.5})])
def test_nothing_is_claimed_of_another_training(both, name, value):
    comparison = compare(both[0], with_settings(both[1], **{name: value}))
    (claim,) = comparison.claims
    assert claim.startswith(f"Nothing may be claimed: the settings differ ({name}")
    assert {row["verdict"] for row in comparison.rows} == {"refused: settings not the same"}


def test_nothing_is_claimed_of_other_data_of_the_same_name(both):
    for one in both[1].trained.values():
        one["inputs"]["dataset"] = "f" * 8
    (claim,) = compare(*both).claims
    assert claim.startswith("Nothing may be claimed: the data differ")


@pytest.mark.parametrize(
    ("classes", "begins"),
    [(("rounding", "different"), "Nothing may be claimed: the parity"), (("rounding",) * 2, "No")],
)
def test_nothing_is_claimed_of_a_trainer_that_lost_its_parity(both, classes, begins):
    campaigns = [replace(one, parity=one.parity.assign(parity=name)) for one, name in zip(both, classes, strict=True)]
    (claim,) = compare(*campaigns).claims
    assert claim.startswith(begins)


@pytest.mark.parametrize(("least", "verdict"), [(0.9, "faster"), (0.5, "not distinguishable"), (np.nan, "withheld")])
def test_disturbed_times_count_within_their_bounds(both, least, verdict):
    """Of 8 runs of each trainer in the first campaign, 4 were disturbed: their times may have been shorter."""
    one, other = both[0], slowed(both[1], 0.8)
    runs = one.runs.assign(disturbed=one.runs["disturbed"].mask(one.runs["repeat"] % 2 == 0, "foreign load"))
    bounds = {
        column: runs[time].astype("float64") * np.where(runs["disturbed"] == "", 1, least)
        for time, column in LEAST.items()
    }
    comparison = compare(replace(one, runs=runs.assign(**bounds)), other)
    assert {text.partition(":")[0] for text in verdicts_of(comparison).values()} == {verdict}
    if verdict == "withheld":
        assert "4 of 8 and 0 of 8 runs disturbed (foreign load)" in str(verdicts_of(comparison))


def test_a_campaign_that_diverged_is_named(both):
    diverged = with_columns(both[1], status="diverged", **dict.fromkeys(COMPARED, np.nan))
    rows = compare(both[0], diverged).rows
    assert {(row["verdict"], row["note"]) for row in rows} == {
        ("too few runs (8 and 0, needs 6)", "second: 8 of 8 diverged")
    }


def test_too_few_runs_get_no_verdict(both):
    few = replace(both[1], runs=both[1].runs[both[1].runs["repeat"] < 6])
    assert set(verdicts_of(compare(both[0], few)).values()) == {"too few runs (8 and 5, needs 6)"}


# --- a limit ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "found"), [(1.2, {SLOWER}), (0.9, {NOT_SLOWER}), (1.0, {NOT_SLOWER}), (1.05, {UNDECIDED})]
)
def test_slower_is_said_only_where_the_interval_proves_it(both, factor, found):
    sentences = judged(compare(both[0], slowed(both[1], factor)), 1.05)
    assert {verdict for verdict, _ in sentences} == found
    assert all(("repeats of each would decide" in text) == (found == {UNDECIDED}) for _, text in sentences)


def compare_py(*arguments):
    """A call of the command."""
    command = [sys.executable, REPOSITORY / "workflow/scripts/compare.py", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_and_writes_and_fails_if_slower(first, tmp_path):
    folder = write_other(tmp_path / "a \x1b[31mred' folder", factor=1.2, began=LATER)
    page, document = tmp_path / "page.html", tmp_path / "numbers.json"
    done = compare_py(first, folder, "--fail-if-slower", "5%", "--html", page, "--json", document)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\x1b" not in done.stdout and "more than 5 % slower, ratio 1.2" in done.stdout
    assert {one["verdict"] for one in json.loads(document.read_text())["limit"]} == {SLOWER}
    assert "slower" in page.read_text()
    assert compare_py(first, folder).returncode == 0
    assert "allowed: a percentage such as 5%" in compare_py(first, folder, "--fail-if-slower", "5").stderr


def test_the_page_has_each_number_of_the_document(both):
    shown = document(compare(*both))
    page = as_page(shown)
    body = ElementTree.fromstring(f"<b>{page.partition('<body>')[2].partition('</body>')[0]}</b>".replace("<br>", ""))
    cells = [" ".join("".join(cell.itertext()).split()) for cell in body.iter() if cell.tag in ("td", "th")]
    for one in shown["differences"]:
        assert {one["setting"], *one["medians"], one["ratio"]} <= {*cells}
    json.loads(json.dumps(shown, allow_nan=False))


# --- folders ------------------------------------------------------------------------------------------------------


def test_an_archive_is_read_as_its_folder(first, again, tmp_path):
    with zipfile.ZipFile(tmp_path / "paper-archive.zip", "w") as archive:
        for file in again.rglob("*"):
            archive.write(file, f"paper-archive/results/{file.relative_to(again)}")
    of_folder, of_archive = (
        document(compare(*read_campaigns([first, one]))) for one in (again, tmp_path / "paper-archive.zip")
    )
    assert of_folder["differences"]
    assert of_folder | {"campaigns": []} == of_archive | {"campaigns": []}


def edited(file, old, new):
    """Replace a part of a file."""
    content = file.read_bytes()
    assert old in content
    file.write_bytes(content.replace(old, new, 1))


BROKEN = {
    "nothing is there": (shutil.rmtree, "there is no "),
    "no plan": (lambda folder: (folder / "plan.json").unlink(), "no results folder of this version"),
    "no tables": (lambda folder: shutil.rmtree(folder / "tables"), "its campaign is not finished: it lacks "),
    "a record is missing": (lambda folder: next(folder.rglob("record.json")).unlink(), "it lacks "),
    "a record was edited": (lambda folder: edited(next(folder.rglob("record.json")), b"1", b"2"), "changed after the"),
    "a table was edited": (lambda folder: edited(folder / "tables/parity.csv", b"e", b"f"), "changed after the tables"),
    "a plan with more runs": (
        lambda folder: edited(folder / "plan.json", b"repeat-1", b"repeat-99"),
        "not of the runs",
    ),
    "a plan that is none": (
        lambda folder: (folder / "plan.json").write_text("[]"),
        "is damaged, or of another version",
    ),
    "a plan that is no JSON": (
        lambda folder: (folder / "plan.json").write_text("{"),
        "is damaged, or of another version",
    ),
    "a plan without an order": (lambda folder: edited(folder / "plan.json", b'"order"', b'"rank"'), "it lacks order"),
    "an unreadable table": (lambda folder: (folder / "tables/manifest.json").write_bytes(b"\xff"), "is damaged"),
}


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_whole_campaign_is_refused_in_a_sentence(first, again, tmp_path, how):
    folder = shutil.copytree(again, tmp_path / "results")
    damage, words = BROKEN[how]
    damage(folder)
    assert words in (message := message_of(read_campaigns, [first, folder]))
    assert str(folder) in message


def test_tables_of_another_version_are_refused(again, tmp_path):
    folder = shutil.copytree(again, tmp_path / "results")
    runs = folder / "tables" / "runs.parquet"
    pd.read_parquet(runs).drop(columns="waited").to_parquet(runs, index=False)
    manifest = json.loads((folder / "tables" / "manifest.json").read_text())
    manifest["tables"]["runs.parquet"] = sha256_of(runs)
    (folder / "tables" / "manifest.json").write_text(json.dumps(manifest))
    assert "another version of trainmark made its tables, without waited" in message_of(read_campaigns, [folder])


def test_what_else_is_no_campaign_is_refused_in_a_sentence(first, again, tmp_path):
    alone = tmp_path / "summary.json"
    alone.write_text("{}")
    assert "give its results folder" in message_of(read_campaigns, [first, alone])
    assert "is no archive of archive.py" in message_of(read_campaigns, [first, first / "plan.json"])
    with zipfile.ZipFile(tmp_path / "damaged.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/results/plan.json", "text" * 1000)
    edited(tmp_path / "damaged.zip", b"\xed\xc3", b"\xff\xff")
    assert "is damaged" in message_of(read_campaigns, [first, tmp_path / "damaged.zip"])
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "text")
    assert "needs one" in message_of(read_campaigns, [first, tmp_path / "other.zip"])
    copy = shutil.copytree(first, tmp_path / "copy")
    assert f"{first} and {copy} hold the same 16 runs" in message_of(read_campaigns, [first, copy])
    (copy / "summary.json").write_text("{}")
    assert read_campaigns([again, copy / "summary.json"])[1].runs.equals(read_campaigns([first])[0].runs)


def test_campaigns_without_a_common_setting_are_refused(both):
    message = message_of(compare, both[0], with_columns(both[1], epochs=4))
    assert "small: chainer on cpu, 3 epochs" in message and "4 epochs" in message
