"""The paper kit: each number is that of the records, LaTeX prints it, and the same results give the same bytes."""

import json
import re
import shutil
import statistics
import subprocess
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path

import pytest
from fabricated_campaigns import write_campaign

from trainmark.errors import DataError
from trainmark.paper.kit import make_kit
from trainmark.paper.numbers import key_of, numbers_of
from trainmark.records.record import read_record
from trainmark.tables.formatting import format_figure
from trainmark.tables.metrics import KNOWN
from trainmark.tables.paired import estimate
from trainmark.tables.sections import read_results
from trainmark.trainer import Trainer

GROUP = "two/mnist-mlp-flux/digits"

needs_latex = pytest.mark.skipif(not shutil.which("latexmk"), reason="latexmk is not installed")


def kit_of(results, out):
    make_kit(results, out)
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


def test_keys_name_one_number_each_also_of_variants_and_commands(tmp_path):
    write_campaign("variants", tmp_path, drawn=False)
    numbers = list(numbers_of(read_results(tmp_path)))
    keys = [number["key"] for number in numbers]
    assert len(set(keys)) == len(keys)
    assert "optimizers/mnist-mlp-flux/digits/chainer-with-rmsprop-cpu/20/test_loss/ratio/chainer-with-adam-cpu" in keys
    lines = (tmp_path / "tables" / "numbers.csv").read_text().splitlines()
    for number in (one for one in numbers if one["source"] != "runs.parquet"):
        line = lines[int(number["source"].removeprefix("numbers.csv:")) - 1]
        assert number["raw"] is None or str(number["raw"]) in line.split(",")
    command = {"experiment": "e", "recipe": "own", "dataset": "own_data", "epochs": 2, "metric": "training_seconds"}
    command |= Trainer("command", "cpu")._asdict() | {"statistic": "ratio", "compared_with": "a on cpu (b on c)"}
    keys.append(key_of(command))
    assert keys[-1] == "e/own/own_data/command-cpu/2/training_seconds/ratio/a-on-cpu-b-on-c"
    assert [key for key in keys if not re.fullmatch(r"[a-z0-9._/-]+", key)] == []


def json_of(kit):
    return json.loads((kit / "numbers.json").read_text())


def value_of(record, path):
    """The value at a path such as "result.test_loss"."""
    return reduce(getitem, path.split("."), record)


def test_medians_are_those_of_the_records(results, kit):
    records, numbers, found = [read_record(path) for path in results.glob("runs/**/record.json")], json_of(kit), 0
    metrics = {name: metric for name, metric in KNOWN.items() if metric.path}
    for (name, metric), trainer, epochs in product(metrics.items(), ("chainer", "keras-jax"), (5, 20)):
        own = [one for one in records if (one["run"]["framework"], one["run"]["epochs"]) == (trainer, epochs)]
        used = [one for one in own if one["status"] == "ok" and (metric.is_lasting or not one["disturbed"])]
        values = [value for value in (value_of(one, metric.path) for one in used) if value is not None]
        number = numbers.get(f"{GROUP}/{trainer}-cpu/{epochs}/{name}")
        assert (number is not None) == bool(values), name
        if values:
            found += 1
            assert number["raw"] == statistics.median(values)
            texts = [format_figure(name, of(values)) for of in (statistics.median, min, max)]
            assert [number[end] for end in ("value", "low", "high")] == [text.removesuffix(" %") for text in texts]
            assert (number["unit"] == "%") == texts[0].endswith(" %")
    assert found == 84


def test_ratios_are_those_of_the_records(results, kit):
    """Of the pairs of a repeat without disturbances."""
    records, numbers = [read_record(path) for path in results.glob("runs/**/record.json")], json_of(kit)
    for metric, epochs in product(("training_seconds", "steady_epoch_seconds"), (5, 20)):
        times = {
            (one["run"]["repeat"], one["run"]["framework"]): one["result"][metric]
            for one in records
            if one["run"]["epochs"] == epochs and one["status"] == "ok" and not one["disturbed"]
        }
        repeats = sorted({n for n, _ in times if {(n, "chainer"), (n, "keras-jax")} <= times.keys()})
        ratios = [times[n, "keras-jax"] / times[n, "chainer"] for n in repeats]
        number = numbers[f"{GROUP}/keras-jax-cpu/{epochs}/{metric}/ratio/chainer-cpu"]
        assert (number["raw"], number["runs"]) == (pytest.approx(estimate(ratios)), str(len(ratios)))


def compile_latex(folder, body, preamble="\\input{numbers}"):
    text = f"\\documentclass{{article}}\n{preamble}\n\\begin{{document}}\n{body}\n\\end{{document}}\n"
    (folder / "own.tex").write_text(text)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "own.tex"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", check=False)


@needs_latex
def test_latex_prints_each_number_and_refuses_unknown_ones(kit, tmp_path):
    shutil.copy(kit / "numbers.tex", tmp_path)
    numbers = {key: one for key, one in json_of(kit).items() if isinstance(one["raw"], float)}
    printed = compile_latex(tmp_path, "".join(f"\\typeout{{{key}=\\tmraw{{{key}}}}}" for key in numbers)).stdout
    printed = printed.replace("\n", "")  # TeX breaks lines
    assert len(numbers) > 100
    assert [key for key, one in numbers.items() if f"{key}={one['raw']}" not in printed] == []
    failed = compile_latex(tmp_path, r"\tm{two/nothing}")
    assert failed.returncode and "There is no number two/nothing" in failed.stdout
    assert compile_latex(tmp_path, r"\tm{machine/cpu} \tmwords{version/chainer}x").returncode == 0


@needs_latex
def test_latex_warns_of_numbers_of_disturbed_runs_and_refuses_to_compare_them(tmp_path):
    write_campaign("disturbed", tmp_path / "results", drawn=False)
    kit = kit_of(tmp_path / "results", tmp_path / "kit")
    own = "busy/mnist-mlp-flux/digits/keras-jax-cpu/20"
    numbers = json_of(kit)
    assert numbers[f"{own}/training_seconds"]["disturbed"] and not numbers[f"{own}/test_loss"]["disturbed"]
    warning = f"Package trainmark Warning: {own}/training_seconds"
    for macro in ("tm", "tmlow", "tmhigh", "tmwords"):
        for body in (f"\\{macro}{{{own}/%s}}", f"\\section{{\\{macro}{{{own}/%s}}}}\\tableofcontents"):
            assert warning not in compile_latex(kit, body % "test_loss").stdout.replace("\n", "")
            for _ in range(2):  # the second reads the table of contents of the first
                assert warning in compile_latex(kit, body % "training_seconds").stdout.replace("\n", "")
            for auxiliary in kit.glob("own.*"):
                auxiliary.unlink()
    raw = numbers[f"{own}/training_seconds"]["raw"]
    body = rf"\edef\x{{\tmraw{{{own}/training_seconds}}}}\typeout{{\meaning\x}}"
    assert f"macro:->{raw}" in compile_latex(kit, body).stdout.replace("\n", "")
    for statistic in ("ratio", "speed_up"):
        done = compile_latex(kit, rf"\tm{{{own}/training_seconds/{statistic}/chainer-cpu}}")
        assert done.returncode and "withheld: 6 of 6 pairs disturbed" in done.stdout.replace("\n", "")
    medians = (kit / "tables" / "busy/mnist-mlp-flux/digits/medians.tex").read_text()
    assert medians.count("* (") == 4 and "of disturbed runs alone" in medians
    assert "24 of 24 runs were disturbed (foreign load)" in (kit / "methods.tex").read_text()


@needs_latex
@pytest.mark.parametrize("campaign", [pytest.param("12 trainers", marks=pytest.mark.slow), "disturbed", "variants"])
def test_the_example_has_two_columns_and_no_overfull_box(campaign, tmp_path):
    write_campaign(campaign, tmp_path / "results", drawn=False)
    make_kit(tmp_path / "results", tmp_path / "kit")
    assert "twocolumn" in (tmp_path / "kit" / "example.tex").read_text()
    sentences = re.split(r"(?<=\.)\s", (tmp_path / "kit" / "methods.tex").read_text())
    assert len(sentences) == len(set(sentences))
    command = ["latexmk", "-norc", "-pdf", "-interaction=nonstopmode", "example.tex"]
    done = subprocess.run(command, cwd=tmp_path / "kit", capture_output=True, check=False)
    log = (tmp_path / "kit" / "example.log").read_text(errors="replace")
    assert done.returncode == 0 and re.findall(r"^(?:Overfull|LaTeX Warning: Float too).*$", log, re.MULTILINE) == []


def shorthands(characters):
    """Let babel make characters active, as many languages do."""
    made = [rf"\useshorthands*{{{one}}}\defineshorthand{{{one}x}}{{\textbf{{x}}}}" for one in characters]
    return r"\usepackage[english]{babel}" + "".join(made)


@needs_latex
@pytest.mark.parametrize(
    ("packages", "setup"),
    [
        ("", ""),
        ("", r"\catcode`\_=12 \catcode`\-=11 "),
        ("", r"\catcode`\-=13 \catcode`\.=13 \protected\def-{\char45 }\protected\def.{\char46 }"),
        (r"\usepackage{hyperref}", ""),
        (r"\usepackage{underscore}", ""),
        (r"\usepackage[strings]{underscore}", ""),
        (shorthands("_.\"':;=`"), ""),
        (r"\usepackage{underscore}" + shorthands('.":'), ""),
    ],
)
@pytest.mark.parametrize("place", ["in the preamble", "in the text"])
def test_a_key_is_its_characters_whatever_packages_make_of_them(kit, tmp_path, packages, setup, place):
    """Also where parts of it are macros, and where the number is expanded, as by siunitx."""
    shutil.copy(kit / "numbers.tex", tmp_path)
    key = f"{GROUP}/keras-jax-cpu/20/training_seconds/ratio/chainer-cpu"
    raw = json_of(kit)[key]["raw"]
    given = r"\input{numbers}"
    before, begin = (packages + given, setup) if place == "in the preamble" else (packages, setup + given)
    body = r"\def\of{two}\def\own{\of/mnist-mlp-flux/digits}\def\trainer{keras-jax-cpu}\def\other{chainer-cpu}"
    for one in (key, r"\own/\trainer/20/training_seconds/ratio/\other"):
        body += f"\n\\edef\\number{{\\tmraw{{{one}}}}}\\typeout{{is \\meaning\\number}}\\tmwords{{{one}}}"
        body += f"\\section{{\\tmlow{{{one}}} \\tmverdict{{{one}}}}}"
    done = compile_latex(tmp_path, begin + body.replace(r"\number", r"\raw"), before)
    assert done.returncode == 0, done.stdout[-3000:]
    assert done.stdout.replace("\n", "").count(f"is macro:->{raw}") == 2
    failed = compile_latex(tmp_path, begin + r"\tm{two/no_thing-1.x}", before)
    assert failed.returncode and "There is no number two/no_thing-1.x" in failed.stdout


def test_the_same_results_give_the_same_bytes_elsewhere(results, kit, tmp_path, monkeypatch):
    """What an earlier call made and this one does not make goes, and files of the user's stay."""
    outdated, own = Path("figures", GROUP, "old.pdf"), Path("figures", GROUP, "mine.pdf")
    again = tmp_path / "another folder"
    for file in (outdated, own):
        (again / file).parent.mkdir(parents=True, exist_ok=True)
        (again / file).write_text("")
    (again / "files.json").write_text(json.dumps([str(outdated), "files.json"]))
    (again / "methods.tex").write_text("mine")
    with pytest.raises(DataError, match=r"methods.tex is your own, .* rename yours"):
        kit_of(results, again)
    assert len(list(again.rglob("*.*"))) == 4
    (again / "methods.tex").unlink()
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    monkeypatch.setenv("LC_ALL", "C")
    kit_of(results, again)
    files = {path.relative_to(kit) for path in kit.rglob("*") if path.is_file()}
    assert {path.relative_to(again) for path in again.rglob("*") if path.is_file()} == files | {own}
    assert [name for name in files if (kit / name).read_bytes() != (again / name).read_bytes()] == []


NOT_OURS = "files.json is not one that trainmark wrote: rename yours"


@pytest.mark.parametrize(
    ("file", "text", "refusal"),
    [
        ("files.json", '{"files.json": "main.tex"}', NOT_OURS),
        ("files.json", '["files.json", "../main.tex"]', NOT_OURS),
        ("files.json", '["files.json", 1]', NOT_OURS),
        ("files.json", "<<<<<<< HEAD", NOT_OURS),
        ("files.json/a", "", NOT_OURS),
        ("methods.tex/a", "", "methods.tex is your own"),
        ("tables", "", "tables is your own"),
    ],
)
def test_what_the_user_has_in_the_folder_stays(results, tmp_path, monkeypatch, file, text, refusal):
    monkeypatch.setattr("trainmark.paper.kit.known_figures", list)  # drawing takes long
    (tmp_path / file).parent.mkdir(exist_ok=True)
    for name in ("main.tex", file):
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=refusal):
        kit_of(results, tmp_path)
    assert [(tmp_path / name).read_text() for name in ("main.tex", file)] == [text] * 2
