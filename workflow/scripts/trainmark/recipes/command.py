"""Command recipes: trainings by any command. Nothing shows what a command trains, so it is not certified."""

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import glob
from pathlib import Path

FRAMEWORK = "command"
"""The framework of the runs of commands; the name of the command is their recipe."""

DATASET = "own_data"
"""The dataset of the runs of commands, which read their own data. No dataset can have this name."""

OF_RECIPES = ("recipes", "datasets", "frameworks")
"""Keys of an experiment that are empty, not at their defaults, if it names commands and none of these."""

PLACEHOLDERS = ("epochs", "device_flag", "seed", "threads", "folder", "trainmark")
"""Names that a command and its variables may contain in braces (docs/commands.md describes each)."""

METRICS = ("epoch", "loss", "accuracy", "test_loss", "test_accuracy", "seconds", "elapsed_seconds")
"""What may be read for each epoch. loss, accuracy: of training, as the command reports them; test_loss, test_accuracy:
of its test; seconds: time of the epoch; elapsed_seconds: time since a fixed moment, at the end of the epoch."""


@dataclass(frozen=True)
class Format:
    """A form in which commands report their epochs.

    columns: the name of each metric in this form, by metric; None if the config has to name them.
    file: the file that is read if the config names none; None for the command's output.
    has_times: whether each entry has a time of its own, so that neither seconds nor elapsed_seconds is needed.
    """

    columns: Mapping[str, str] | None = None
    file: str | None = None
    has_times: bool = False


FORMATS = {
    "regex": Format(),
    "csv": Format(),
    "json-lines": Format(),
    # https://docs.chainer.org/en/v7.8.1/reference/generated/chainer.training.extensions.LogReport.html
    "chainer-log-report": Format(
        {
            "epoch": "epoch",
            "loss": "main/loss",
            "accuracy": "main/accuracy",
            "test_loss": "validation/main/loss",
            "test_accuracy": "validation/main/accuracy",
            "elapsed_seconds": "elapsed_time",
        },
        file="result/log",
    ),
    # https://keras.io/api/callbacks/csv_logger
    "keras-csv-logger": Format(
        {
            "epoch": "epoch",
            "loss": "loss",
            "accuracy": "accuracy",
            "test_loss": "val_loss",
            "test_accuracy": "val_accuracy",
        }
    ),
    "tensorboard": Format(has_times=True),
}
"""The formats by name, as `metrics.format` of a command names them."""


LINE_FORMATS = ("regex", "csv", "json-lines", "keras-csv-logger")
"""Formats of which each line is read by itself: the moment at which it appears can be the end of its epoch."""


def columns_of(metrics: Mapping) -> dict[str, str]:
    """Return the name of each metric that is read, by metric: those of the format, changed by the config."""
    named = {name: column.strip() for name, column in metrics["columns"].items()}
    return {**(FORMATS[metrics["format"]].columns or {}), **named}


def patterns_of(metrics: Mapping) -> list[str]:
    """Return the regular expressions of the format regex. The last one ends an epoch."""
    pattern = metrics["pattern"]
    return [pattern] if isinstance(pattern, str) else list(pattern or [])


def metrics_file(metrics: Mapping) -> str | None:
    """Return the file that is read, or its pattern, relative to the command's folder; None for the command's output."""
    return metrics["file"] or FORMATS[metrics["format"]].file


def matches_of(file: str, folder: Path, besides: Collection[Path] = ()) -> list[Path]:
    """Return the file of this name in a folder if it is there, else all that match it as a pattern with * and ?.

    besides: files that are no matches of a pattern.
    """
    if (folder / file).exists():
        return [folder / file]
    matches = [folder / match for match in sorted(glob(file, root_dir=folder, recursive=True))]
    return [match for match in matches if match not in besides]


QUOTED = re.compile(r"""\\.|'[^']*'|"(?:\\[\s\S]|[^"\\])*\"""")
"""What a command line quotes."""

OF_A_SHELL = (
    (r"^\s*(\w+=)", "the key variables"),
    (r"^\s*(cd|source|\.|export|set|unset|alias|eval|exec|ulimit|umask|trap|if|for|while)(?=\s)", None),
    (r"(&&|\|\||&>>?|[0-9]?>>?(?:&[0-9])?|[|;&<`*])", None),
    (r"(\$\(|\$\{?\w+\}?)", None),
    (r"(?:^|\s)(~[^\s]*)", "the whole path"),
    (r"\s(#)", None),
    (r"(\\\n|\n(?=[^\s-]))", "one line"),
)
"""What a command line means for a shell alone, outside quotes, and what to write instead."""

SCRIPTS = (".py", ".R", ".jl", ".sh")
"""Ends of the names of scripts."""

Problems = Iterator[tuple[tuple[str | int, ...], str]]
"""Mistakes: their key paths inside the command, and sentences."""

VARIABLE = re.compile(r"\$\(|\$\{?[A-Za-z_]\w*\}?")


def shell_problem(line: str) -> str | None:
    """Return a sentence if a command line needs a shell."""
    unquoted = QUOTED.sub("Q", line.strip())
    found = {match: instead for pattern, instead in OF_A_SHELL for match in re.findall(pattern, unquoted)}
    if not found:
        return None
    shown = ", ".join("a line break" if "\n" in match else match for match in found)
    allowed = [*dict.fromkeys(filter(None, found.values())), "sh -c '...' around the line", "quotes around text"]
    return f"found {shown}, and a command runs without a shell; allowed: {', '.join(allowed[:-1])}, or {allowed[-1]}"


def filled(text: str, values: Mapping[str, object]) -> str:
    """Replace each placeholder in a text by its value. Other braces stay as they are."""
    return re.sub(r"\{(\w+)\}", lambda match: str(values.get(match[1], match[0])), text)


def problems(command: Mapping) -> Problems:
    """Yield (key path, sentence) for each mistake in a command that fits the schema, with defaults."""
    for path, text in [(("command",), command["command"]), *_variables(command)]:
        unknown = [name for name in re.findall(r"(?<!\$)\{(\w+)\}", text) if name not in PLACEHOLDERS]
        if unknown:
            yield path, f"found {{{unknown[0]}}}; allowed: {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}"
    flags = [(("device_flag", device), {"device_flag": flag}) for device, flag in command["device_flag"].items()]
    for path, flag in [(("command",), {}), *flags]:
        if sentence := _line_problem(filled(command["command"], flag)):
            yield path, sentence
            break
    for path, text in _variables(command):
        if found := VARIABLE.search(text):
            yield path, f"found {found[0]}, which no shell replaces here; allowed: a value, or sh -c '...' in command"
    if command["environment"] and command["container"]:
        yield ("container",), "found both environment and container; allowed: one of them"
    yield from _file_problems(command["files"])
    if (file := metrics_file(command["metrics"])) in [one["path"] for one in command["files"]]:
        yield ("metrics", "file"), f"found {file}, which is one of files; allowed: a file that the command writes"
    yield from ((("metrics", *path), sentence) for path, sentence in _metrics_problems(command["metrics"]))


def _file_problems(files: Sequence[Mapping]) -> Problems:
    paths = [file["path"] for file in files]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        yield ("files",), f"found the path {twice} twice; allowed: each path once"
    for i, file in enumerate(files):
        if "sha256" not in file and all(re.match("https?:", url, re.IGNORECASE) for url in file["urls"]):
            yield ("files", i), "lacks the key sha256; allowed: 64 hexadecimal digits, which a local file may lack"


def script_of(command: Mapping) -> str | None:
    """Return the script that a command line starts, as it names it; None if it names none, or by a placeholder."""
    try:
        words = shlex.split(command["command"])
    except ValueError:
        return None
    for word in words:
        if word in ("-c", "-m"):
            return None
        if word.endswith(SCRIPTS) and not re.search(r"^-|[{=\s]", word):
            return word
    return None


def _line_problem(line: str) -> str | None:
    try:
        words = shlex.split(line)
    except ValueError as error:
        return f"its quotes can't be read ({str(error).lower()}); allowed: a command line as in a shell"
    if not words:
        return "found no word; allowed: a command line such as python -u train.py -e {epochs}"
    return shell_problem(line)


def _variables(command: Mapping) -> list[tuple[tuple[str, ...], str]]:
    return [(("variables", name), value) for name, value in command["variables"].items()]


def _metrics_problems(metrics: Mapping) -> Problems:
    name, form, columns = metrics["format"], FORMATS[metrics["format"]], columns_of(metrics)
    if name == "regex":
        yield from _pattern_problems(metrics)
        return
    if metrics["pattern"] is not None:
        yield ("pattern",), f"the format {name} has no pattern; allowed: columns"
    if not set(columns) - {"epoch"}:
        yield ("columns",), f"the format {name} needs the names of its columns; allowed: {', '.join(METRICS)}"
    if metrics_file(metrics) is None and name not in ("json-lines",):
        yield ("file",), f"the format {name} is read from a file; allowed: a path in the command's folder"
    if form.has_times and (late := [key for key in ("epoch", "seconds", "elapsed_seconds") if key in columns]):
        yield ("columns", late[0]), f"the format {name} has its own epochs and times; allowed: loss, accuracy, ..."
    read = list(columns.values())
    if twice := next((column for column in read if read.count(column) > 1), None):
        metric, other, *_ = (name for name in columns if columns[name] == twice)
        yield ("columns", other), f"found {twice}, which is {metric}, too; allowed: a column of its own for each"
    if {"seconds", "elapsed_seconds"} <= set(columns):
        yield ("columns",), "found both seconds and elapsed_seconds; allowed: one of them"


def _pattern_problems(metrics: Mapping) -> Problems:
    patterns = patterns_of(metrics)
    allowed = f"a regular expression with named groups, (?P<loss>\\S+), of the names {', '.join(METRICS)}"
    if not patterns:
        yield ("pattern",), f"the format regex needs it; allowed: {allowed}"
    if metrics["columns"]:
        yield ("columns",), "the format regex has no columns; allowed: named groups in pattern"
    names: set[str] = set()
    for pattern in patterns:
        try:
            groups = re.compile(pattern).groupindex
        except re.error as error:
            yield ("pattern",), f"can't be read ({error}); allowed: {allowed}"
            return
        names |= set(groups)
    for unknown in sorted(names - set(METRICS)):
        yield ("pattern",), f"found the group {unknown}; allowed: {allowed}"
    if patterns and not names - {"epoch"}:
        yield ("pattern",), f"its groups name no metric; allowed: {allowed}"
    if {"seconds", "elapsed_seconds"} <= names:
        yield ("pattern",), "found both seconds and elapsed_seconds; allowed: one of them"
