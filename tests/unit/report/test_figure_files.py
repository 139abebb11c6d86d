"""The files of figures: artwork and caption apart, options, texts in the SVG, and the same bytes each time."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pandas as pd
import plot
import pytest
from figures_for_tests import PUBLISHED, data_of, made_up, with_rows
from records_for_tests import disturbed, diverged, record

from trainmark.config.load import shipped_files
from trainmark.errors import ConfigError, DataError
from trainmark.plan.figures import (
    FIGURE_FORMATS,
    NOTHING_TO_SHOW,
    figure_arguments,
    known_figures,
    options_of_group,
)
from trainmark.report.figures import options, save
from trainmark.report.figures.caption import for_latex
from trainmark.report.figures.data import of_trainers
from trainmark.report.figures.options import DEFAULT_OPTIONS, FigureOptions
from trainmark.report.figures.save import ALL_CENSORED, draw_figure, laid_out, save_figures
from trainmark.trainer import Trainer

OF_FIGURES = shipped_files()[0]["properties"]["figures"]["properties"]


def saved(folder, name, data):
    """The content of each file of a figure, by its format."""
    save_figures(data, folder, [name])
    return {kind: (folder / f"{name}.{kind}").read_bytes() for kind in FIGURE_FORMATS}


def caption_of(name, data):
    """The notes in the caption of a figure: its details without how to read it."""
    drawn = laid_out(name, data)
    return drawn.details.splitlines()[drawn.shows :]


# --- captions and notes -------------------------------------------------------------------------------------------


@pytest.fixture
def unranked(tmp_path):
    """Two trainers that must not be ranked."""
    parities = {("a on cpu", "b on cpu"): "different"}
    return data_of(tmp_path, record("a"), record("b"), record("b", 2), parities=parities)


REFUSAL = "Not to be ranked:\na on cpu and b on cpu: they are <different>"


def test_the_caption_has_the_notes_and_the_runs_and_the_artwork_only_what_must_not_be_ranked(tmp_path, unranked):
    assert caption_of("loss", unranked) == [
        "Not to be ranked: a on cpu and b on cpu: they are <different>.",
        "Runs 1-3.",
    ]
    figure, _ = draw_figure("loss", unranked)
    assert figure.get_supxlabel() == "Not ranked: a on cpu and b on cpu"
    equal = data_of(tmp_path / "equal", record("a"), record("b"))
    assert draw_figure("loss", equal)[0].get_supxlabel() == ""


def test_a_caption_names_the_published_results_that_the_figure_shows(tmp_path):
    data = data_of(tmp_path, record("a"), references=PUBLISHED)
    about = "Published results, on other hardware: an old framework on an old GPU: a GPU, 2017; a log; median of 10."
    assert caption_of("loss", data) == [about, "Run 1."]
    assert "another framework: a CPU, year not stated; a table." in caption_of("training_time", data)[0]
    assert caption_of("phases", data) == ["Run 1."]


def test_the_caption_of_a_figure_that_shows_nothing_says_so(tmp_path):
    data = data_of(tmp_path, diverged("a"))
    assert laid_out("training_time", data).caption.endswith(ALL_CENSORED)
    assert caption_of("training_time", data) == ["Run 1."]
    assert f"<dc:description>{NOTHING_TO_SHOW}</dc:description>".encode() in saved(tmp_path, "loss", data)["svg"]
    assert NOTHING_TO_SHOW.encode() not in saved(tmp_path, "accuracy", data)["svg"]


def test_a_caption_names_disturbed_runs_once_and_why_nothing_is_drawn(tmp_path):
    busy = [record(name, n, changes=disturbed(foreign_seconds=1.0)) for name in "ab" for n in range(1, 7)]
    loud = data_of(tmp_path, *busy)
    assert laid_out("training_time", loud).details.lower().count("runs 1-12") == 1
    unshown = laid_out("speed_up", loud)
    assert not unshown.shows and "6 of 6 pairs disturbed" in unshown.caption


def test_a_figure_of_a_command_names_the_trainings_that_it_must_not_be_ranked_with(unranked):
    ratio = {"statistic": "ratio", "compared_with": "a on cpu (r on d)", "parity": "not certified", "reason": "unknown"}
    rows = [ratio | Trainer("perceptron", "cpu")._asdict() | {"epochs": epochs} for epochs in (1, 2)]
    of_command = replace(unranked, section=replace(unranked.section, parity=unranked.section.parity[:0]))
    of_command = with_rows(of_command, *rows)
    assert draw_figure("loss", of_command)[0].get_supxlabel() == "Not ranked: a on cpu (r on d) and perceptron on cpu"
    assert caption_of("loss", of_command)[0].count("unknown") == 1


def test_latex_prints_the_caption_as_it_is(tmp_path, unranked):
    files = saved(tmp_path, "loss", unranked)
    drawn = laid_out("loss", unranked)
    assert files["caption.txt"].decode() == f"{drawn.caption}\n{drawn.details}\n"
    assert "ranked" not in files["caption.tex"].decode()
    assert r"they are \textless{}different\textgreater{}." in files["details.tex"].decode()
    assert for_latex("6.91e-05 1e-9 v1e-5 1.2.3e+06x") == (
        r"\ensuremath{6.91\times10^{-5}} \ensuremath{10^{-9}} v1e-5 1.2.3e+06x"
    )
    text = '\\a{b} $1 & #2_x 95 % ~^ <i> \N{RIGHTWARDS ARROW} \N{LEFT DOUBLE QUOTATION MARK}q" --d'
    assert for_latex(text) == (
        r"\textbackslash{}a\{b\} \$1 \& \#2\_x 95 \% \textasciitilde{}\textasciicircum{} \textless{}i\textgreater{} "
        r"$\rightarrow$ ``q'' -{}-d"
    )


# --- options ------------------------------------------------------------------------------------------------------


def test_options_of_the_config_are_those_of_the_figures():
    defaults = {key: part["default"] for key, part in OF_FIGURES.items()}
    assert FigureOptions.of(defaults) == FigureOptions.of({}) == DEFAULT_OPTIONS
    assert len(defaults) == len(vars(DEFAULT_OPTIONS))
    assert OF_FIGURES["style"]["enum"] == list(options.STYLES)
    for key, limits in (("width", options.WIDTHS_MM), ("dpi", options.DPI), ("size", options.SIZES_PT)):
        assert (OF_FIGURES[key]["minimum"], OF_FIGURES[key]["maximum"]) == limits


CHOSEN = {
    "width": 89, "style": "plain", "font": "Liberation Sans", "size": 8, "dpi": 600,
    "trainers": ["a-cpu", "b-gpu-tuned"],
}  # fmt: skip


def parsed(*words):
    """The options that plot.py reads from its command line."""
    needed = ["--results-folder=r", "--experiment=e", "--recipe=r", "--dataset=d", "--out-folder=o"]
    with mock.patch.multiple(plot, draw=mock.DEFAULT, section_of=mock.DEFAULT, read_data=mock.DEFAULT) as made:
        with mock.patch.object(sys, "argv", ["plot.py", *needed, *words]):
            plot.main()
        return made["read_data"].call_args.args[2]


def test_options_of_the_config_reach_the_figures():
    chosen = FigureOptions(89, "plain", "Liberation Sans", 8, 600, ("a-cpu", "b-gpu-tuned"))
    assert FigureOptions.of(CHOSEN) == chosen
    assert parsed(*figure_arguments(CHOSEN)) == chosen
    assert parsed(*figure_arguments(options_of_group({"width": None}, []))) == DEFAULT_OPTIONS


def test_only_the_chosen_trainers_are_drawn(tmp_path):
    data = made_up(tmp_path, ["a", "b", "c"], loops=["stock", "tuned"])
    few = of_trainers(data.section, ["a-cpu", "c-cpu-tuned"])
    both = {"a on cpu", "c tuned on cpu"}
    assert {Trainer.of(row).name for table in (few.runs, few.numbers) for row in table.to_dict("records")} == both
    assert {*few.rows("break_even")["compared_with"]} == {"a on cpu"}
    for pairs in (few.parity, pd.DataFrame(few.certificate["pairs"])):
        assert {*zip(pairs["first"], pairs["second"], strict=True)} == {("a on cpu", "c tuned on cpu")}
    alone = of_trainers(data.section, ["b-cpu"])
    assert alone.certificate["pairs"] == [] and {*alone.rows("speed_up")["compared_with"]} == {"a on cpu"}
    assert draw_figure("parity", replace(data, section=alone))[1] is False
    with pytest.raises(ConfigError, match=r"trainers: found d-cpu; allowed: a-cpu, a-cpu-tuned, b-cpu"):
        of_trainers(data.section, ["a-cpu", "d-cpu"])


# --- metadata, and the same files ---------------------------------------------------------------------------------


def test_files_say_what_they_are(tmp_path, unranked):
    files = saved(tmp_path, "loss", unranked)
    title = b"loss: mnist-mlp-flux on digits"
    assert all(title in files[kind] for kind in ("pdf", "svg", "png"))
    assert b"Not to be ranked: a on cpu and b on cpu" in files["pdf"]
    assert not any(word in files[kind] for kind in ("pdf", "svg", "png") for word in (b"CreationDate", b"<dc:date>"))


REDRAW = """
import pickle, sys
from pathlib import Path
from trainmark.plan.figures import known_figures
from trainmark.report.figures.save import save_figures
source, folder = sys.argv[1:]
save_figures(pickle.loads(Path(source).read_bytes()), Path(folder), known_figures())
"""


@pytest.mark.slow
def test_figures_are_the_same_each_time_on_any_day_in_any_folder(tmp_path, monkeypatch):
    """Drawn by another process, whose hashes, time zone and matplotlibrc differ, and whose clock is years ahead."""
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    data = made_up(tmp_path, ["chainer", "keras-jax"])
    source, other = tmp_path / "data.pickle", tmp_path / "another folder"
    pd.to_pickle(data, source, compression=None)
    other.mkdir()
    (other / "matplotlibrc").write_text("font.size: 20\naxes.facecolor: red\nsvg.fonttype: path\n")
    (other / "sitecustomize.py").write_text("import time\nnow = time.time\ntime.time = lambda: now() + 1e8\n")
    scripts = Path(save.__file__).parents[3]
    paths = os.pathsep.join(map(str, (scripts, other)))
    environment = os.environ | {"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "LANG": "C", "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", REDRAW, source, other], cwd=other, env=environment, check=True)
    for name in known_figures():
        for kind, content in saved(tmp_path, name, data).items():
            assert (other / f"{name}.{kind}").read_bytes() == content, f"{name}.{kind}"


def test_thousands_of_runs_give_small_files(tmp_path):
    data = made_up(tmp_path, ["chainer", "keras-jax"], settings=(2, 4))
    runs = pd.concat([data.runs.assign(id=data.runs["id"] + str(i)) for i in range(400)], ignore_index=True)
    many = replace(data, section=replace(data.section, runs=runs))
    small, large = (saved(tmp_path, "training_time", one) for one in (data, many))
    assert all(len(large[kind]) < len(small[kind]) + 100_000 for kind in FIGURE_FORMATS)


def test_a_process_that_fails_to_draw_fails_the_job(tmp_path, monkeypatch):
    def save_figures(data, folder, names):
        if list(known_figures())[1] in names:  # of the second process
            raise DataError("it can't be drawn")

    monkeypatch.setattr(plot, "save_figures", save_figures)
    with pytest.raises(SystemExit):
        plot.draw(None, tmp_path, 2)


def test_texts_of_an_svg_are_texts_in_a_font_that_may_be_missing(tmp_path, unranked):
    content = saved(tmp_path, "loss", unranked)["svg"].decode()
    assert "font-family: 'DejaVu Sans'" in content and ", sans-serif;" in content
    assert ">test loss (nats)</text>" in content
