"""The examples of the pages print what the pages show.

The blocks of a page are followed in order, in one copy of the repository. A block whose first line is a comment with a
path is written to that file. Other `sh` and `python` blocks are run. A block without a language directly below is what
they print; a line `...` stands for lines that are left out. What differs from run to run is not compared: MASKS.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from itertools import product
from textwrap import dedent

import pytest
from harness import FRAMEWORKS, REPOSITORY, copy_of_repository, edit, environment

pytestmark = pytest.mark.slow

SKIPPED = {
    "make": "the first call takes minutes; .ci/run calls it",
    "source .venv": "the environment of the tests is active",
    "git clone": "the clone is there",
    "snakemake --cores 4 --resources gpu=1 --configfile my.yaml": "80 runs: minutes",
    "python3 -m venv": "installs torch; the environment of the tests stands in for that of the page",
    "torch-environment": "as above",
    "run=": "of reviews that are fetched; WEIGHTS are of another run",
    "python workflow/scripts/predict.py $run reviews.txt": "as above",
    "echo": "as above",
}
"""Lines of `sh` blocks that begin so are not run, each with the reason."""

WEIGHTS = "results/runs/flowers/imagenet-nin/flowers/chainer-cpu/epochs-1/repeat-1/*/weights.npz"
QUICK = """experiments:
  flowers: {recipes: [imagenet-nin], frameworks: [chainer], epochs: [1], input: {crop: [99, 99]}}
"""
"""Put over photographs.md's experiment: certificates and trainings of ResNet-50 take a quarter of an hour."""

REPLACED = {
    "pytorch_and_jax.md": {"epochs: [5, 20]": "epochs: [1]", "repeats: 8 ": "repeats: 1 "},
    "photographs.md": {"--configfile mine.yaml": "--configfile mine.yaml quick.yaml"},
    "results.md": {
        "my.yaml": "mine.yaml quick.yaml",
        "<dataset>": "flowers",
        "--experiment digits --recipe mnist-mlp-chainer --dataset digits": "--experiment flowers --recipe imagenet-nin "
        "--dataset flowers",
        "flax-cpu keras-jax-cpu": "chainer-cpu",
        ' --font "Liberation Sans"': "",
        '"weights.npz"': f"*__import__('glob').glob('{WEIGHTS}')",
    },
}
"""What a reader replaces by names of their own, and what would take too long."""

AFTER = {"photographs.md": "your_own.md", "results.md": "photographs.md", "columns.md": "commands.md"}
"""Pages that use the files of another one; results.md and columns.md its results, too."""

MASKS = {
    # Snakemake's own lines, and those on an earlier config, on other work on the machine and on long work
    r"(Using workflow specific profile|Assuming unrestricted|Building DAG|Complete log|Elapsed time).*\n": "",
    r".*: differs from \d+ kept runs? in: .*\n|.*no longer of.*\n": "",
    r"[0-9a-f]{8}-[0-9a-f]{8}": "KEY",
    r"Disturbed: .*\n\n": "",
    r".*, for \d+ \w+ now\n": "",
    # times, ratios, and differences that depend on the order of sums
    r"[\d.]+ s of training(; disturbed: .*)? (\(\d+ of \d+ done).*\)": r"TIME \2)",
    r"^(\S+ +cpu +\d+) +(?:\d+ of )?(\d+)(?: disturbed)? +[\d.]+\*? ": r"\1 \2 TIME ",
    r"(epochs) +(?:withheld.*|[\d.]+(?: +not ranked)?)$": r"\1 RATIO",
    r"about [\d.]+ \w+(?: to [\d.]+ \w+)? (for|on)": r"about TIME \1",
    r"\d\.\d+e-\d+": "DIFFERENCE",
    r"(?:, \d+ warnings?)? in [\d.]+s$": " in TIME",
    # the widths of columns
    r" *-{4,} *": "----",
    r"(?<=\S) {2,}": " ",
}


def masked(text):
    for pattern, replacement in MASKS.items():
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return text.strip("\n")


DECIMAL = r"\d+\.\d+"


def same(shown, printed):
    """Whether lines are the same; decimals (accuracies and losses) may differ by the rounding of another machine."""
    if re.sub(DECIMAL, "", shown) != re.sub(DECIMAL, "", printed):
        return False
    numbers = ([float(number) for number in re.findall(DECIMAL, text)] for text in (shown, printed))
    return next(numbers) == pytest.approx(next(numbers), rel=0.01)


def matches(shown, printed):
    """Whether the printed lines are those shown, where `...` stands for any number of lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(matches(shown[1:], printed[number:]) for number in range(len(printed) + 1))
    return bool(printed) and same(shown[0], printed[0]) and matches(shown[1:], printed[1:])


BLOCK = r"^( *)```(\w*)\n(.*?)^\1```$(?:\n\n\1```\n(.*?)^\1```$)?"


def blocks_of(page):
    """The blocks of a page: language, text, and what the page shows that it prints."""
    text = (REPOSITORY / ("" if page == "README.md" else "docs") / page).read_text(encoding="utf-8")
    for _, language, block, shown in re.findall(BLOCK, text, re.MULTILINE | re.DOTALL):
        yield language, dedent(block), dedent(shown)


def run(folder, *command):
    """What a command prints, with the paths of the pages."""
    done = subprocess.run(
        command, cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-5000:]}"
    return done.stdout.replace(os.path.realpath(folder), "/home/me/trainmark")


@pytest.fixture(scope="module")
def follow(tmp_path_factory):
    """A function that follows a page, and those before it, and returns the copy and what was printed."""
    copy = copy_of_repository(tmp_path_factory.mktemp("pages") / "copy")
    (copy / "quick.yaml").write_text(QUICK)
    (copy / "torch-environment").symlink_to(sys.prefix)

    @cache
    def walk(page):
        if page in AFTER:
            walk(AFTER[page])
        if page not in ("results.md", "columns.md"):
            shutil.rmtree(copy / "results", ignore_errors=True)
        of_all = ""
        for language, text, shown in blocks_of(page):
            text = "".join(line for line in text.splitlines(True) if not line.startswith(tuple(SKIPPED)))
            for old, new in REPLACED.get(page, {}).items():
                text = text.replace(old, new)
            if file := re.match(r"# ([\w./]+\.(yaml|py))\n", text):
                (copy / file[1]).parent.mkdir(parents=True, exist_ok=True)
                (copy / file[1]).write_text(text, encoding="utf-8")
            elif text and language in ("sh", "python"):
                printed = run(copy, *(["bash", "-ec"] if language == "sh" else ["python", "-c"]), text)
                of_all += printed
                as_shown = not shown or matches(masked(shown).splitlines(), masked(printed).splitlines())
                assert as_shown, f"shown:\n{shown}\nprinted:\n{printed}"
        return copy, of_all

    return walk


def test_the_readme(follow):
    copy, printed = follow("README.md")
    assert re.search(r"^train +80$", printed, re.MULTILINE)
    page = (copy / "README.md").read_text(encoding="utf-8")
    (mistake,) = re.findall(r"^ConfigError: my\.yaml, line .*$", page, re.MULTILINE)
    edit(copy / "my.yaml", "keras-jax,", "keras-jx,")
    assert mistake in run(copy, "bash", "-c", "! python workflow/scripts/validate.py my.yaml")


def test_your_own(follow):
    copy, _ = follow("your_own.md")
    (published,) = re.findall(r"published_parameters=([\d_]+)", (copy / "docs/your_own.md").read_text())
    records = [json.loads(record.read_text()) for record in copy.glob("results/runs/colours/**/record.json")]
    assert {record["network"]["parameters"] for record in records} == {int(published)}


@pytest.mark.skipif(FRAMEWORKS[-1] != "torch", reason="torch is not installed (an optional extra)")
def test_pytorch_and_jax(follow):
    copy, _ = follow("pytorch_and_jax.md")
    records = [json.loads(record.read_text()) for record in copy.glob("results/runs/mine/**/record.json")]
    assert {(record["run"]["framework"], record["run"]["loop"]) for record in records} == set(
        product(["torch", "flax"], ["stock", "tuned"])
    )


@pytest.mark.parametrize("page", ["photographs.md", "results.md", "commands.md", "columns.md"])
def test_the_page(follow, page):
    follow(page)
