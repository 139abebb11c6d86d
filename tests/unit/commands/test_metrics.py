"""Reading what a command reports: each format, the times of the epochs, and one sentence for what can't be read."""

import json
import os

import pytest
from command_runs import PATTERN, command_with_defaults
from records_for_tests import evaluated

from trainmark.commands.curves import curves_of
from trainmark.commands.entries import lines_of
from trainmark.commands.followed import FollowedFile
from trainmark.commands.metrics import read_entries
from trainmark.errors import CommandError


def metrics_with_defaults(**keys):
    return command_with_defaults(metrics=keys)["metrics"]


def chunks_of(*lines, every=1.0):
    return [(every * number, f"{line}\n".encode()) for number, line in enumerate(lines, start=1)]


def curves(metrics, text=(), path=None, *, epochs=2, end=10.0):
    return curves_of(metrics, read_entries(metrics, text, path), epochs, 0.0, end)[:2]


def seconds_of(*arguments, **options):
    return [entry["seconds"] for entry in curves(*arguments, **options)[0]]


def losses_of(entries):
    """[train losses, test losses]"""
    return [[entry["evaluations"][split]["loss"] for entry in entries] for split in ("train", "test")]


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


def test_progress_bars_and_colours_do_not_hide_a_line():
    text = [
        (1.0, b"\x1b[1m1/9\x1b[0m loss 9\repo"),
        (2.0, b"ch 1 \x1b[32mloss 0.5\x1b[0m accuracy 0.9"),
        (3.0, b"\b\b"),
    ]
    metrics = metrics_with_defaults(format="regex", pattern=r"och 1 loss (?P<loss>\S+)")
    assert seconds_of(metrics, text, epochs=1) == [2.0]
    before, after = "é\n".encode()[:1], "é\n".encode()[1:]
    assert list(lines_of([(1.0, before), (2.0, after)])) == [(2.0, "é")], "a character in two pieces is one"


def test_csv_and_keras_csv_logger():
    text = chunks_of("epoch,accuracy,loss,val_accuracy,val_loss", "0,0.5,2.0,0.6,1.5", "1,0.7,1.0,0.8,0.9")
    entries, _ = curves(metrics_with_defaults(format="keras-csv-logger", file="log.csv"), text)
    assert [entry["seconds"] for entry in entries] == [2.0, 1.0]
    assert entries[1]["evaluations"] == {"test": evaluated(0.9, 0.8), "train": evaluated(1.0, 0.7)}
    own = metrics_with_defaults(format="csv", file="log.csv", columns={"loss": "val_loss", "seconds": "loss"})
    assert seconds_of(own, text) == [2.0, 1.0]


def csv_of(text):
    """(losses, test losses) that are read of a CSV file or of JSON lines."""
    form = "json-lines" if "{" in text else "csv"
    columns = {"epoch": "epoch", "loss": "loss", "test_loss": "val_loss"}
    metrics = metrics_with_defaults(format=form, file="log", columns=columns)
    text = [(float(at), line) for at, line in enumerate(text.encode().splitlines(keepends=True), start=1)]
    entries, _ = curves(metrics, text, end=20.0)
    return losses_of(entries)


READ_AS_ONE_TABLE = {
    "short rows": "epoch,loss,val_loss\n1,0.5\n1,,0.6\n2,0.4\n2,,0.5\n",
    "Lightning": "epoch,loss,loss_step,val_loss\n0,,0.9,\n0,,,0.6\n0,0.5,,\n1,,0.8,\n1,,,0.5\n1,0.4,,\n",
    "blanks and a byte order mark": "\ufeffepoch , loss, val_loss\n1,  0.5 , 0.6\n 2, 0.4, 0.5 \n",
    "tabs and Windows": "epoch\tloss\tval_loss\r\n1\t0.5\t0.6\r\n2\t0.4\t0.5\r\n",
    "semicolons and a comma in a name": 'epoch;loss;val_loss;"a, b, c, d"\n1;0.5;0.6;7\n2;0.4;0.5;7\n',
    "commas at the end": "epoch,loss,val_loss,\n1,0.5,0.6,\n2,0.4,0.5,,\n",
    "lines without a value": " \n\nepoch,loss,val_loss\n\n1,0.5,0.6\n  \n,,\n2,0.4,0.5\n\n",
    "header again": "epoch,loss,val_loss\n1,0.5,0.6\nepoch,loss,val_loss\n2,0.4,0.5\n",
    "another header": "epoch,loss\n1,0.5\n2,0.4\nval_loss,lr,epoch\n0.6,7,1\n0.5,7,2\n",
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


def test_times_that_a_command_gives(tmp_path, capsys):
    """A line is over with its last character; minutes, a clock that began before the command, and none at all."""
    bars = [(at, f"\repoch {at:g} loss 1".encode()) for at in (1.0, 2.0)]
    number = metrics_with_defaults(format="regex", pattern=r"epoch (?P<epoch>\d) loss (?P<loss>\d)")
    assert seconds_of(number, [*bars, (9.0, b"\n")]) == [1.0, 1.0]
    for metric, rows, expected in (
        ("seconds", ("1,0:02", "1,1:03"), [2.0, 63.0]),
        ("elapsed_seconds", ("1,1732795200.5", "1,1732795203"), [87.5, 2.5]),
        ("seconds", ("1,1", "1,0"), [None, None]),
    ):
        metrics = metrics_with_defaults(format="csv", file="log", columns={"loss": "l", metric: "t"})
        assert seconds_of(metrics, chunks_of("l,t", *rows), end=90.0) == expected
    assert "too coarse" in capsys.readouterr().out


def test_a_file_that_changes_at_each_look_and_a_pipe(tmp_path):
    file = FollowedFile(tmp_path, "log")
    for at in range(50):
        (tmp_path / "log").write_text(f"e,l,v\n{'2,.4,.5' if at > 20 else ''}\n1,.5,.6\n#{at}")
        os.utime(tmp_path / "log", (at, at))
        file.look(at / 50)
    file.end(1.0)
    assert {at for at, line in file.chunks if line.startswith(b"2")} == {None}
    os.mkfifo(tmp_path / "pipe")
    FollowedFile(tmp_path, "pipe").end(1.0)


def test_log_report_with_an_entry_before_the_training(tmp_path):
    rows = [{"epoch": number, "main/loss": 1.0, "elapsed_time": 0.5 + 2.0 * number} for number in range(3)]
    file = tmp_path / "log"
    file.write_text(json.dumps(rows))
    metrics = metrics_with_defaults(format="chainer-log-report")
    assert seconds_of(metrics, path=file) == [2.0, 2.0]
    assert seconds_of(metrics, path=file, epochs=3) == [0.5, 2.0, 2.0]


TRAIN, TEST = r"train (?P<loss>\S+)", r"test (?P<test_loss>\S+)"
NUMBERED = [rf"epoch (?P<epoch>\d+) {pattern}" for pattern in (TEST, TRAIN)]
HEADED = [r"^Epoch (?P<epoch>\d+)", TRAIN, TEST]
LOSS = r"loss (?P<loss>[0-9.]+)"
BOARD = metrics_with_defaults(format="tensorboard", file="run", columns={"loss": "train/loss", "test_loss": "loss"})


def of_regex(pattern, text):
    """Lines of an output, separated by bars."""
    return metrics_with_defaults(format="regex", pattern=pattern), chunks_of(*text.split(" | "))


def of_board(*further):
    scalars = [(1, "train/loss", 0.5), (2, "train/loss", 0.4), (1, "loss", 0.6), (2, "loss", "NaN")]
    rows = [(100 + 2 * step, step, tag, float(value), "a") for step, tag, value in scalars]
    return BOARD, chunks_of(*map(json.dumps, [*rows, *further]))


TABLE = metrics_with_defaults(format="csv", file="log.csv", columns={"epoch": "epoch", "loss": "loss"})


def of_table(*rows, header="epoch,loss,lr", columns=None):
    """A table of CSV."""
    return TABLE | {"columns": columns or TABLE["columns"]}, chunks_of(header, *rows)


def of_json(row):
    columns = {"epoch": "epoch", "loss": "loss"}
    return metrics_with_defaults(format="json-lines", columns=columns), chunks_of(row, '{"epoch": 2, "loss": 0.4}')


ONE_NAME_SEVERAL_VALUES = {
    "each line names its epoch, in any order": (
        *of_regex(NUMBERED, "epoch 1 train .5 | epoch 1 test .6 | epoch 2 train .4 | epoch 2 test .5"),
        [[0.5, 0.4], [0.6, 0.5]],
    ),
    "all tests before all trainings": (
        *of_regex(NUMBERED, "epoch 2 test .5 | epoch 1 test .6 | epoch 1 train .5 | epoch 2 train .4"),
        [[0.5, 0.4], [0.6, 0.5]],
    ),
    "a number above its lines": (
        *of_regex(HEADED, "Epoch 1/2 | train .5 | test .6 | Epoch 2/2 | train .4 | test .5"),
        [[0.5, 0.4], [0.6, 0.5]],
    ),
    "of several lines of a training, the last": (
        *of_regex([TRAIN, TEST], "1/2 train 3 | 2/2 train .5 | test .6 | 1/2 train .4 | test .5 | test .5"),
        [[0.5, 0.4], [0.6, 0.5]],
    ),
    "several lines that differ in nothing else": (
        *of_regex([TRAIN, TEST], "train 3 | train .5 | test .6"), "has an epoch twice, with loss 3 and 0.5",
    ),
    "several lines of other words": (
        *of_regex([r"loss (?P<loss>\S+)", TEST], "1/2 loss 3 | 2/2 val loss .5 | test .6"), "with loss 3 and 0.5",
    ),
    "two processes under a heading": (
        *of_regex(HEADED, "Epoch 1 | train .5 | test .6 | train .4 | test .5"), "epoch 1 twice, with loss 0.5 and 0.4",
    ),
    "a test in each second epoch, under a heading": (
        *of_regex(HEADED, "Epoch 1 | train .5 | Epoch 2 | test .5 | train .4"), [[0.5, 0.4], [None, 0.5]],
    ),
    "a line before the headings": (*of_regex(HEADED, "test 9 | Epoch 1 | train .5"), "'test 9' before any line"),
    "a pattern of no line": (*of_regex(NUMBERED, "epoch 1 train .5 | epoch 2 train .4"), "no line that matches the pa"),
    "training counts from 0 and test from 1": (
        *of_regex(NUMBERED, "epoch 0 train .5 | epoch 1 test .6 | epoch 1 train .4 | epoch 2 test .5"),
        "the epochs 0 to 2, and some of them lack a value",
    ),
    "a test before the training": (
        *of_regex(NUMBERED, "epoch 0 test 9 | epoch 1 train .5 | epoch 2 train .4 | epoch 2 test .5"),
        [[0.5, 0.4], [None, 0.5]],
    ),
    "patterns in another order than their lines": (
        *of_regex([TEST, TRAIN], "train .5 | test .6 | train .4 | test .5"),
        "no match of .test .* beside the line 'train .5'",
    ),
    "one pattern without a number": (
        *of_regex([TEST, NUMBERED[1]], "epoch 1 train .5 | test .6 | epoch 2 train .4 | test .5"),
        "no match of .test .* beside the line 'epoch 1 train .5'",
    ),
    "a test that is not made in each epoch": (
        *of_regex([TEST, TRAIN], "test .6 | train .5 | train .4"), "no match of .test .* beside the line 'train .4'",
    ),
    "a line after the last epoch": (
        *of_regex([TRAIN, TEST], "train .5 | test .6 | train .4 | test .5 | best train .4"), "beside the line 'best",
    ),
    "two ranks": (*of_regex(NUMBERED, "epoch 1 train .5 | epoch 1 train .6"), "epoch 1 twice, with loss 0.5 and 0.6"),
    "two patterns for one name": (*of_regex([r"a (?P<loss>\S+)", r"b (?P<loss>\S+)"], "a 1 | b 2"), "loss 1 and 2"),
    "two places of a line": (*of_regex(r"loss: (?P<loss>\S+)", "loss: .5 val_loss: .6"), "0.5 and 0.6 as loss in"),
    "one place under two names": (
        *of_regex([r"loss: (?P<loss>\S+)", r"val_loss: (?P<test_loss>\S+)"], "loss: .5 | val_loss: .6"),
        r"'.6' as loss and as test_loss in the line 'val_loss: .6'",
    ),
    "equal reports": (
        *of_regex(PATTERN, f"{line(1)} | {line(1)} | {line(2, 'nan')} | {line(2, 'NaN')}"), [[0.5, "NaN"]],
    ),
    "an exponent": (*of_regex(LOSS, "loss 9.5e-05 | loss 1"), "has 9.5e-05 in the line .*, of which .* reads '9.5'"),
    "a decimal comma": (*of_regex(LOSS, "loss 0,95 | loss 1"), "has 0,95 in the line"),
    "thousands": (*of_regex(LOSS, "loss 1,234.5 | loss 1"), "has 1,234.5 in the line"),
    "German thousands": (*of_regex(LOSS, "loss 1.234,5 | loss 1"), "has 1.234,5 in the line"),
    "a sign": (*of_regex(r"loss.*?(?P<loss>[0-9.]+)", "loss: -0.5 | loss 1"), "has -0.5 in the line"),
    "some digits": (*of_regex(r"loss (?P<loss>\d\.\d)", "loss 0.55 | loss 1"), "has 0.55 in the line"),
    "a narrow blank": (*of_regex(LOSS, "loss 1\u202f234 | loss 1"), "has 1.234 in the line"),
    "a thousand's letter": (*of_regex(LOSS, "loss 1.2k | loss 1"), "has 1.2k in the line"),
    "minutes": (*of_regex(r"took (?P<seconds>\d+)", "took 1:23 | took 1"), "has 1:23 in the line"),
    "no minutes": (*of_regex(r"(?P<loss>\S+) 00:(?P<seconds>\d+)", ".5 00:08 | .4 00:02"), [[0.5, 0.4]]),
    "the minutes of seconds": (*of_regex(r"took (?P<seconds>\d+)", "took 00:08 | took 00:02"), "has 00:08 in the line"),
    "milliseconds": (*of_regex(r"took (?P<seconds>\d+)", "took 350 ms | took 1"), "has 350 ms in the line"),
    "a fraction of minutes": (*of_regex(r"took (?P<seconds>\S+)", "took .35 Minutes | took 1"), "has .35 Minutes in"),
    "seconds after a minute": (*of_regex(r"(?P<seconds>\d+) s", "1 minute and 3 s | 1 s"), "has 1 minute and 3 in the"),
    "seconds of part of an epoch": (
        *of_regex([r"^(?P<epoch>\d) train (?P<seconds>\S+)", r"^(?P<epoch>\d) test (?P<seconds>\S+) (?P<loss>.)"],
                  "1 train 2 | 1 test 2 1"), "epoch 1 twice, with seconds 2 and 2",
    ),
    "seconds beside minutes": (*of_regex(r"(?P<seconds>\d+)s", "took 1m 23s | took 1s"), "has 1m 23 in the line"),
    "what is no part of a number": (
        *of_regex(r"-(?P<epoch>\d+)/2,(?P<loss>[0-9.]+),(?P<test_loss>[0-9.]+)\.", "x-1/2,0.5,0.6. | x-2/2,0.4,0.5."),
        [[0.5, 0.4], [0.6, 0.5]],
    ),
    "a row without a number": (*of_table("1,.5,", ",.45,"), r"without the number of its epoch .* \(loss 0.45\)"),
    "a name of a column in a row": (*of_table("1,.5,loss", "2,.4,loss"), [[0.5, 0.4]]),
    "a header again, with a number in a name": (
        *of_table("1,.5,", "epoch,loss,top-5", "2,.4,", header="epoch,loss,top-5"), [[0.5, 0.4]],
    ),
    "an accuracy in float32": (*of_regex(PATTERN, f"{line(1, .5, 1.0000001192)} | {line(2, .4, 1)}"), [[0.5, 0.4]]),
    "a key of JSON": (*of_json('{"epoch": 1, "loss": 0.5, " loss": 0.6}'), "has 0.5 and 0.6 as 'loss' in one object"),
    "an equal key of JSON": (*of_json('{"epoch": 1, "loss": 0.5, "loss": 0.5}'), [[0.5, 0.4]]),
    "scalars in two folders": (*of_board((108, 1, "validation/loss", 7.0, "validation/a")), [[0.5, 0.4], [0.6, "NaN"]]),
    "an equal scalar": (*of_board((104, 2, "loss", float("nan"), "b")), [[0.5, 0.4], [0.6, "NaN"]]),
    "an accuracy that is NaN": (
        BOARD | {"columns": BOARD["columns"] | {"test_accuracy": "accuracy"}},
        [*of_board()[1], *of_board((104, 2, "accuracy", float("nan"), "a"))[1][-1:]],
        [[0.5, 0.4], [0.6, "NaN"]],
    ),
    "scalars of two ranks": (*of_board((104, 2, "loss", 0.25, "b")), "the tag loss at step 2: nan in a and 0.25 in b"),
    "scalars in other folders": (
        BOARD, chunks_of(json.dumps([1.0, 1, "validation/loss", 0.5, "a"])), "lacks the tag loss; it has validation"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ONE_NAME_SEVERAL_VALUES)
def test_one_name_has_one_value(case):
    metrics, text, expected = ONE_NAME_SEVERAL_VALUES[case]
    if isinstance(expected, str):
        with pytest.raises(CommandError, match=expected):
            curves(metrics, text, end=99.0)
    else:
        entries, _ = curves(metrics, text, end=99.0)
        assert losses_of(entries)[: len(expected)] == expected


def test_tensorboard_has_times():
    assert seconds_of(*of_board()) == [8.0, 2.0]  # the first one has what is left of 10 s


ROWS = metrics_with_defaults(format="csv", file="log", columns={"epoch": "e", "loss": "l", "test_loss": "v"})
UNNUMBERED = ROWS | {"columns": {"loss": "l", "test_loss": "v"}}
FIRST, BOTH = "e,l,v\n1,.5,.6\n", "e,l,v\n1,.5,.6\n2,.4,.5\n"
WITHOUT_TIMES = [None, None]
WRITTEN = {
    "appended": (ROWS, {1: "e,l,v\n", 3: FIRST, 5: BOTH}, [3, 2]),
    "a piece of a line": (ROWS, {1: "e,l,v\n1,.", 3: FIRST, 5: BOTH.rstrip()}, [3, 2]),
    "anew with each epoch": (ROWS, {3: FIRST, 4.99: "", 5: BOTH}, [3, 2]),
    "with a column more": (UNNUMBERED, {3: "l,v\n.5,.6\n", 5: "a,l,v\n,.5,.6\n.9,.4,.5\n"}, [3, 2]),
    "with other columns": (UNNUMBERED, {3: "x,v\n.5,.6\n", 5: "v,l\n.6,.5\n.5,.4\n"}, WITHOUT_TIMES),
    "the newest row first": (ROWS, {3: FIRST, 5: "e,l,v\n2,.4,.5\n1,.5,.6\n"}, [3, 2]),
    "the newest row first, without numbers": (
        UNNUMBERED, {3: "l,v\n.5,.6\n", 5: "l,v\n.4,.5\n.5,.6\n"}, "the report of epoch 2 before that of epoch 1",
    ),
    "a second fit": (ROWS, {1: "e,l,v\n1,9,9\n2,8,8\n", 2: "", 4: FIRST, 7: BOTH}, [4, 3]),
    "a second fit with an equal row": (ROWS, {1: FIRST, 2: "e,l,v\n", 4: FIRST, 7: BOTH}, [4, 3]),
    "removed, and a second fit with an equal row": (ROWS, {1: BOTH, 2: None, 4: FIRST, 7: BOTH}, [4, 3]),
    "shortened to an equal row": (ROWS, {1: BOTH, 4: FIRST, 7: BOTH}, WITHOUT_TIMES),
    "a second fit after the first": (ROWS, {1: "e,l,v\n1,9,9\n", 3: "e,l,v\n1,9,9\n1,.5,.6\n"}, "has epoch 1 twice"),
    "replaced": (ROWS, {1: "e,l,v\n1,9,9\n", 4: FIRST, 7: BOTH}, WITHOUT_TIMES),
    "edited in place": (ROWS, {1: "e,l,v\n1,9,.6\n", 3: FIRST, 5: BOTH}, WITHOUT_TIMES),
    "shortened": (ROWS, {1: BOTH, 3: FIRST}, "has 1 epoch, and the run is of 2"),
    "removed": (ROWS, {1: BOTH, 3: None}, "has no epoch"),
    "shares of epochs": (ROWS, {3: "e,l,v\n.94,.5,.6\n", 5: "e,l,v\n.94,.5,.6\n1.88,.4,.5\n"}, [3, 2]),
    "one and a half epochs": (ROWS, {3: "e,l,v\n1,.5,.6\n1.5,.4,.5\n"}, "the epochs 1, 1.5, which do not follow"),
    "half epochs": (ROWS, {3: "e,l,v\n.5,.5,.6\n1,.4,.5\n"}, "the epochs 0.5, 1, which do not follow"),
    "steps": (ROWS, {3: "e,l,v\n99,.5,.6\n", 5: "e,l,v\n99,.5,.6\n199,.4,.5\n"}, [3, 2]),
    "other steps": (ROWS, {3: "e,l,v\n100,.5,.6\n150,.4,.5\n"}, "the epochs 100, 150, which do not follow"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRITTEN)
def test_a_file_is_read_as_it_is_at_its_end(case, tmp_path):
    """Each state of the file is looked at up to three times."""
    metrics, states, expected = WRITTEN[case]
    file = FollowedFile(tmp_path, "log")
    for (at, text), following in zip(states.items(), [*states, 9][1:], strict=True):
        if text is None:
            (tmp_path / "log").unlink()
        else:
            (tmp_path / "log").write_text(text)
            os.utime(tmp_path / "log", (at, at))
        for look in range(3):
            if at + look / 50 < following:
                file.look(at + look / 50)
    file.end(9.0)
    if isinstance(expected, str):
        with pytest.raises(CommandError, match=expected):
            curves(metrics, file.chunks)
    else:
        entries, _ = curves(metrics, file.chunks)
        assert [entry["seconds"] for entry in entries] == expected
        assert losses_of(entries) == [[0.5, 0.4], [0.6, 0.5]]


TIMED = metrics_with_defaults(format="regex", pattern=r"took (?P<seconds>\S+)")
LOG = metrics_with_defaults(format="csv", file="log.csv", columns={"loss": "val_loss"})


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
