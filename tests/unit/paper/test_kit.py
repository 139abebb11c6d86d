"""The paper kit: each number is that of the records, LaTeX prints it, and the same results give the same bytes."""

import json
import shutil
import statistics
import subprocess
from pathlib import Path

import pytest
from fabricated_campaigns import write_campaign

from trainmark.paper.kit import make_kit
from trainmark.plan.plan_file import read_plan
from trainmark.records.record import read_record
from trainmark.tables.formatting import format_figure

GROUP = "two/mnist-mlp-flux/digits"

needs_latex = pytest.mark.skipif(not shutil.which("latexmk"), reason="latexmk is not installed")


def kit_of(results, out):
    make_kit(results, read_plan(results / "plan.json"), out)
    return out


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The results folder of a campaign of two trainers."""
    folder = tmp_path_factory.mktemp("campaign") / "results"
    write_campaign("two trainers", folder, drawn=False)
    return folder


@pytest.fixture(scope="module")
def kit(results, tmp_path_factory):
    return kit_of(results, tmp_path_factory.mktemp("kit"))


def numbers_of(kit):
    return json.loads((kit / "numbers.json").read_text())


def test_medians_are_those_of_the_records(results, kit):
    records = [read_record(path) for path in results.glob("runs/two/**/record.json")]
    numbers, found = numbers_of(kit), 0
    for trainer in ("chainer", "keras-jax"):
        for epochs in (5, 20):
            own = [one for one in records if (one["run"]["framework"], one["run"]["epochs"]) == (trainer, epochs)]
            timed = [one for one in own if not one["disturbed"] and one["status"] == "ok"]
            for metric, of in (("training_seconds", timed), ("test_accuracy", own), ("test_loss", own)):
                values = [one["result"][metric] for one in of if one["status"] == "ok"]
                number = numbers[f"{GROUP}/{trainer}-cpu/{epochs}/{metric}"]
                assert number["raw"] == statistics.median(values)
                assert number["value"] == format_figure(metric, statistics.median(values))
                assert (number["low"], number["high"]) == tuple(format_figure(metric, f(values)) for f in (min, max))
                found += 1
    assert found == 12


def test_a_ratio_has_its_interval_verdict_and_row(results, kit):
    number = numbers_of(kit)[f"{GROUP}/keras-jax-cpu/20/training_seconds/ratio/chainer-cpu"]
    name, line = number["source"].split(":")
    row = (results / "tables" / name).read_text().splitlines()[int(line) - 1]
    assert str(number["raw"]) in row and number["verdict"] in row
    assert float(number["low"]) < number["raw"] < float(number["high"])
    assert number["words"] == f"{number['value']} (95 % interval {number['low']} to {number['high']})"


def compile_latex(folder, body):
    (folder / "own.tex").write_text(
        f"\\documentclass{{article}}\n\\input{{numbers}}\n\\begin{{document}}{body}\\end{{document}}\n"
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "own.tex"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)


@needs_latex
def test_latex_prints_each_number_and_refuses_unknown_ones(kit, tmp_path):
    shutil.copy(kit / "numbers.tex", tmp_path)
    numbers = {key: one for key, one in numbers_of(kit).items() if isinstance(one["raw"], float)}
    printed = compile_latex(tmp_path, "".join(f"\\typeout{{{key}=\\tmraw{{{key}}}}}" for key in numbers)).stdout
    printed = printed.replace("\n", "")  # TeX breaks lines
    assert len(numbers) > 100
    assert [key for key, one in numbers.items() if f"{key}={one['raw']}" not in printed] == []
    failed = compile_latex(tmp_path, r"\tm{two/nothing}")
    assert failed.returncode and "There is no number two/nothing" in failed.stdout
    assert compile_latex(tmp_path, r"\tm{machine/cpu} \tmwords{version/chainer}x").returncode == 0


@needs_latex
def test_the_same_results_give_the_same_bytes_elsewhere(results, kit, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "C")
    again = kit_of(results, tmp_path / "another folder")
    files = {str(path.relative_to(kit)) for path in kit.rglob("*") if path.is_file()}
    assert files == {str(path.relative_to(again)) for path in again.rglob("*") if path.is_file()}
    assert "example.pdf" in files
    assert [name for name in files if (kit / name).read_bytes() != (again / name).read_bytes()] == []


def test_what_is_not_made_again_goes_and_what_is_the_users_stays(results, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    kit_of(results, tmp_path)
    outdated, own = Path("figures", GROUP, "old.pdf"), Path("figures", GROUP, "mine.pdf")
    for file in (outdated, own):
        (tmp_path / file).write_text("")
    listed = tmp_path / "files.json"
    listed.write_text(json.dumps([*json.loads(listed.read_text()), str(outdated)]))
    kit_of(results, tmp_path)
    assert (tmp_path / own).exists() and not (tmp_path / outdated).exists()
