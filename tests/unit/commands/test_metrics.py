"""Reading what a command reports: each format, the times of the epochs, and one sentence for what can't be read."""

import json

import pytest
from command_runs import PATTERN, command_with_defaults
from records_for_tests import evaluated

from trainmark.commands.curves import curves_of
from trainmark.commands.metrics import lines_of, read_entries
from trainmark.errors import CommandError


def metrics_with_defaults(**keys):
    return command_with_defaults(metrics=keys)["metrics"]


def chunks_of(*lines, every=1.0):
    return [(every * number, f"{line}\n".encode()) for number, line in enumerate(lines, start=1)]


def curves(metrics, text=(), path=None, *, epochs=2, end=10.0):
    return curves_of(metrics, read_entries(metrics, text, path), epochs, 0.0, end)[:2]


def seconds_of(*arguments, **options):
    return [entry["seconds"] for entry in curves(*arguments, **options)[0]]


REGEX = metrics_with_defaults(format="regex", pattern=PATTERN)


def line(epoch=1, loss=0.5, accuracy=0.9):
    return f"epoch {epoch} loss {loss} accuracy {accuracy}"


def test_regex():
    entries, diverged = curves(REGEX, chunks_of("begin", line(1), "between", line(2, 0.25, 0.95)))
    assert diverged is None
    assert [entry["seconds"] for entry in entries] == [2.0, 2.0]
    assert [entry["part"] for entry in entries] == ["warm_up", "steady"]
    assert entries[1]["batch_loss"] == 0.25
    assert entries[1]["evaluations"]["test"] == evaluated(None, 0.95)


def test_epochs_that_are_reported_at_the_same_moment_have_no_times(capsys):
    text = [(1.0, b"begin\n"), (4.0, f"{line(1)}\n{line(2, 0.25)}\n".encode())]
    entries, diverged, training_seconds = curves_of(REGEX, read_entries(REGEX, text, None), 2, 0.5, 10.0)
    assert (diverged, training_seconds) == (None, 3.5)
    assert [(entry["part"], entry["seconds"], entry["batch_loss"]) for entry in entries] == [
        ("warm_up", None, 0.5),
        ("warm_up", None, 0.25),
    ]
    assert "python -u" in capsys.readouterr().out


def test_the_last_of_several_patterns_ends_an_epoch():
    patterns = [r"Loss: (?P<loss>\S+)", r"Test: \S+ \((?P<test_accuracy>\d+)%\)"]
    metrics = metrics_with_defaults(format="regex", pattern=patterns, accuracy_of=100)
    text = chunks_of("Loss: 3", "Loss: 2", "Test: 90/100 (90%)", "Loss: 1", "Test: 95/100 (95%)")
    entries, _ = curves(metrics, text)
    assert [entry["batch_loss"] for entry in entries] == [2.0, 1.0]
    assert [entry["evaluations"]["test"]["accuracy"] for entry in entries] == [0.9, 0.95]


def test_progress_bars_and_colours_do_not_hide_a_line():
    text = [
        (1.0, b"\x1b[1m1/9\x1b[0m loss 9\repo"),
        (2.0, b"ch 1 \x1b[32mloss 0.5\x1b[0m accuracy 0.9"),
        (3.0, b"\b\b"),
    ]
    metrics = metrics_with_defaults(format="regex", pattern=r"och 1 loss (?P<loss>\S+)")
    assert seconds_of(metrics, text, epochs=1) == [3.0]
    before, after = "é\n".encode()[:1], "é\n".encode()[1:]
    assert list(lines_of([(1.0, before), (2.0, after)])) == [(2.0, "é")], "a character in two pieces is one"


def test_csv_and_keras_csv_logger():
    text = chunks_of("epoch,accuracy,loss,val_accuracy,val_loss", "0,0.5,2.0,0.6,1.5", "1,0.7,1.0,0.8,0.9")
    entries, _ = curves(metrics_with_defaults(format="keras-csv-logger", file="log.csv"), text)
    assert [entry["seconds"] for entry in entries] == [2.0, 1.0]
    assert entries[1]["evaluations"] == {"test": evaluated(0.9, 0.8), "train": evaluated(1.0, 0.7)}
    own = metrics_with_defaults(format="csv", file="log.csv", columns={"test_loss": "val_loss", "seconds": "loss"})
    assert seconds_of(own, text) == [2.0, 1.0]


def csv_of(text):
    """(losses, test losses) that are read of a CSV file or of JSON lines."""
    form = "json-lines" if "{" in text else "csv"
    columns = {"epoch": "epoch", "loss": "loss", "test_loss": "val_loss"}
    metrics = metrics_with_defaults(format=form, file="log", columns=columns)
    text = [(float(at), line) for at, line in enumerate(text.encode().splitlines(keepends=True), start=1)]
    entries, _ = curves(metrics, text, end=20.0)
    return [[entry["evaluations"][split]["loss"] for entry in entries] for split in ("train", "test")]


READ_AS_ONE_TABLE = {
    "short rows": "epoch,loss,val_loss\n1,0.5\n1,,0.6\n2,0.4\n2,,0.5\n",
    "Lightning": "epoch,loss,loss_step,val_loss\n0,,0.9,\n0,,,0.6\n0,0.5,,\n1,,0.8,\n1,,,0.5\n1,0.4,,\n",
    "blanks and a byte order mark": "\ufeffepoch , loss, val_loss\n1,  0.5 , 0.6\n 2, 0.4, 0.5 \n",
    "tabs and Windows": "epoch\tloss\tval_loss\r\n1\t0.5\t0.6\r\n2\t0.4\t0.5\r\n",
    "semicolons and a comma in a name": 'epoch;loss;val_loss;"a, b, c, d"\n1;0.5;0.6;7\n2;0.4;0.5;7\n',
    "commas at the end": "epoch,loss,val_loss,\n1,0.5,0.6,\n2,0.4,0.5,,\n",
    "lines without a value": " \n\nepoch,loss,val_loss\n\n1,0.5,0.6\n  \n,,\n2,0.4,0.5\n\n",
    "header again": "epoch,loss,val_loss\n1,0.5,0.6\nepoch,loss,val_loss\n2,0.4,0.5\n",
    "numbers with a point": "epoch,loss,val_loss\n0.0,0.5,0.6\n1.0,0.4,0.5\n",
    "JSON, two lines an epoch, blanks and a byte order mark": (
        '\ufeff{" epoch": 1, "loss ": " 0.5", "val_loss": null}\n{"epoch": 1, "val_loss": 0.6}\n'
        '{"epoch": 2, "loss": 0.4},\n{"epoch": 2, "val_loss": "0.5"}\r\n'
    ),
}  # fmt: skip


@pytest.mark.parametrize("written", READ_AS_ONE_TABLE)
def test_a_table_is_read_however_it_is_written(written):
    assert csv_of(READ_AS_ONE_TABLE[written]) == [[0.5, 0.4], [0.6, 0.5]]


def test_an_epoch_ends_with_its_last_line():
    """The names of columns may have blanks."""
    text = chunks_of("epoch,loss,val_loss", "1,0.5,", "1,,0.6", "2,0.4,", "2,,0.5")
    columns = {"epoch": "epoch ", "loss": " loss", "test_loss": "val_loss"}
    assert seconds_of(metrics_with_defaults(format="csv", file="log", columns=columns), text) == [3.0, 2.0]


def test_a_loss_that_is_not_finite_is_a_value_in_a_table():
    assert csv_of("epoch,loss,val_loss\n1,0.5,\n1,,0.6\n2,inf,\n2,,NaN\n") == [[0.5, "Infinity"], [0.6, "NaN"]]


def test_json_lines_of_other_events_are_left_out():
    metrics = metrics_with_defaults(format="json-lines", columns={"loss": "l", "elapsed_seconds": "t"})
    rows = ['{"event": "start"}', "no JSON", '{"l": 2, "t": 3.5}', "[1]", '{"l": 1, "t": 5}']
    assert seconds_of(metrics, chunks_of(*rows)) == [3.5, 1.5]


def test_log_report_with_an_entry_before_the_training(tmp_path):
    rows = [{"epoch": number, "main/loss": 1.0, "elapsed_time": 0.5 + 2.0 * number} for number in range(3)]
    file = tmp_path / "log"
    file.write_text(json.dumps(rows))
    metrics = metrics_with_defaults(format="chainer-log-report")
    assert seconds_of(metrics, path=file) == [2.0, 2.0]
    assert seconds_of(metrics, path=file, epochs=3) == [0.5, 2.0, 2.0]


def test_tensorboard_has_folders_in_its_tags_and_one_value_for_each_step():
    metrics = metrics_with_defaults(
        format="tensorboard", file="run", columns={"loss": "train/loss", "test_accuracy": "accuracy"}
    )
    scalars = [
        [100.0 + 2 * step, step, tag, value]
        for step in (1, 2, 3)
        for tag, value in (("train/loss", 1 / step), ("validation/loss", 7.0), ("accuracy", 0.5), ("accuracy", 0.5))
    ]
    entries, _ = curves(metrics, chunks_of(*map(json.dumps, scalars)), epochs=3)
    assert [entry["seconds"] for entry in entries] == [6.0, 2.0, 2.0]  # the first one has what is left of 10 s
    assert [entry["batch_loss"] for entry in entries] == pytest.approx([1.0, 0.5, 1 / 3])
    with pytest.raises(CommandError, match=r"file run has 0\.5 and 0\.25 as the tag accuracy at step 3"):
        curves(metrics, chunks_of(*map(json.dumps, [*scalars, [107.0, 3, "accuracy", 0.25]])), epochs=3)


TIMED = metrics_with_defaults(format="regex", pattern=r"took (?P<seconds>\S+)")
LOG = metrics_with_defaults(format="csv", file="log.csv", columns={"loss": "val_loss"})
TABLE = metrics_with_defaults(format="csv", file="log.csv", columns={"epoch": "epoch", "loss": "loss"})


def of_table(*rows, header="epoch,loss,lr", columns=None):
    """A table of CSV for WRONG."""
    return TABLE | {"columns": columns or TABLE["columns"]}, chunks_of(header, *rows)


WRONG = {
    "no match": (REGEX, chunks_of("finished"), "its output has no line that matches the pattern"),
    "nothing": (LOG, [], "the file log.csv has no epoch: compare it with the key metrics"),
    "too few": (REGEX, chunks_of(line(1)), "has 1 epoch, and the run is of 2: does the command use {epochs}?"),
    "order": (REGEX, chunks_of(line(1), line(3)), "has the epochs 1, 3, which do not follow each other"),
    "no number": (REGEX, chunks_of(line(1, "low"), line(2)), "has 'low' as loss, which is no number"),
    "percent": (REGEX, chunks_of(line(1, 1, 98.5)), "98.5 as test_accuracy, .*set accuracy_of: 100"),
    "NaN time": (TIMED, chunks_of("took nan", "took 1"), "gives epoch 1 nan s, which is no time"),
    "too long": (TIMED, chunks_of("took 9.5", "took 9.5"), "its epochs 19.0 s, but the command ran for 10.0 s"),
    "twice": (*of_table("1,2,3", "1,1,3"), r"epoch 1 twice, with loss 2 and 1: .*the format regex can tell"),
    "decimal comma": (*of_table("1,0,5,0,1"), "has 5 values in the line '1,0,5,0,1', and its header has 3: a number"),
    "lines without a number": (
        *of_table("1,2,3", "1,,3", "2,1,3", "2,4,3", columns={"loss": "loss"}),
        "has 3 epochs, and the run is of 2: .* name its column epoch in columns",
    ),
    "no value": (
        *of_table("1,2,", "2,1,", columns={"loss": "loss", "accuracy": "lr"}),
        "the file log.csv has no value of lr, which columns names as accuracy",
    ),
    "column twice": (*of_table("1,2,3", header="epoch,loss,loss"), "the file log.csv has the column loss twice"),
    "no column": (LOG, chunks_of("epoch,loss", "1,2"), "lacks the column val_loss; it has epoch, loss"),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_read_is_one_sentence(wrong):
    metrics, text, sentence = WRONG[wrong]
    with pytest.raises(CommandError, match=sentence):
        curves(metrics, text)


@pytest.mark.parametrize("text", ["[{", "[1]"])
def test_a_log_report_that_is_none(text, tmp_path):
    file = tmp_path / "log"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(CommandError, match="the file result/log is no"):
        curves(metrics_with_defaults(format="chainer-log-report"), path=file)
