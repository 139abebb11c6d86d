"""Checkpoints: an intact one is found whatever happened to the newest and whenever the process was killed."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from harness import importing

from trainmark.training import checkpoints
from trainmark.training.checkpoints import Checkpoint, identity_of, newest_checkpoint, write_checkpoint

RUN = identity_of({"run": "a", "code": "1"})
OTHER_RUN = identity_of({"run": "a", "code": "2"})
PART = "checkpoint.part"


def checkpoint(epoch: int) -> Checkpoint:
    state = {"weights": np.full((4, 3), epoch, np.float32), "optimizer/steps": np.array(10 * epoch)}
    return Checkpoint(epoch, state, {"curves": [{"epoch": n + 1} for n in range(epoch)], "last_loss": 0.5})


def write(folder: Path, *epochs: int, identity: str = RUN) -> list[Path]:
    return [write_checkpoint(folder, identity, checkpoint(epoch)) for epoch in epochs]


def found_epoch(folder: Path, identity: str = RUN) -> int | None:
    """The epoch of the newest checkpoint, which must be intact."""
    found = newest_checkpoint(folder, identity)
    if found is None:
        return None
    expected = checkpoint(found.epoch)
    assert found.progress == expected.progress
    assert found.state.keys() == expected.state.keys()
    assert all(np.array_equal(found.state[name], expected.state[name]) for name in expected.state)
    return found.epoch


def test_a_checkpoint_round_trip_is_exact_to_the_bit(tmp_path):
    state = {
        "dense1.kernel": np.random.default_rng(1).normal(size=(3, 5)).astype(np.float32),
        "optimizer/dense1/kernel": np.array([[1.5, np.nan], [np.inf, -0.0]]),
        "file": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "content": np.array(7, np.uint64),
        "random state": np.array([2**32 - 1, 0], np.uint32),
        "trained": np.array(True),
        "empty": np.zeros((0, 4), np.float16),
    }
    progress = {"curves": [{"epoch": 1, "seconds": 0.1}], "last_loss": None, "text": "ä", "joules": 1 / 3}
    write_checkpoint(tmp_path / "run.checkpoint", RUN, Checkpoint(3, state, progress))
    found = newest_checkpoint(tmp_path / "run.checkpoint", RUN)
    assert (found.epoch, found.progress) == (3, progress)
    assert found.state.keys() == state.keys()
    for name, array in state.items():
        assert (found.state[name].dtype, found.state[name].shape) == (array.dtype, array.shape)
        assert found.state[name].tobytes() == array.tobytes()


def test_the_newest_is_used_also_if_epochs_have_more_digits_and_of_one_epoch_the_later(tmp_path):
    for epoch, time in ((999_999, 1), (1_000_000, 2), (1_000_000, 3), (1_000_000, 4)):
        os.utime(write_checkpoint(tmp_path, RUN, Checkpoint(epoch, {}, {"time": time})), ns=(time, time))
        assert newest_checkpoint(tmp_path, RUN).progress == {"time": time}


def test_a_checkpoint_of_another_identity_is_not_used_not_deleted_and_not_counted(tmp_path, capsys):
    """It may be of a later epoch, because a run with changed code starts again."""
    file, *_ = others = write(tmp_path, 50, 51, identity=OTHER_RUN)
    assert found_epoch(tmp_path) is None
    told = f"{file}: not used: this checkpoint belongs to other settings, code or versions\n"
    assert capsys.readouterr().out.startswith(told)
    own = write(tmp_path, 1, 2, 3)
    assert found_epoch(tmp_path) == 3
    assert sorted(tmp_path.iterdir()) == sorted([*own[1:], *others])


def test_the_last_two_are_kept_and_the_one_just_written_beside_later_epochs(tmp_path):
    files = write(tmp_path, 48, 49, 50, 51)
    assert sorted(tmp_path.iterdir()) == files[2:]
    (file,) = write(tmp_path, 1)
    assert file.exists() and len(list(tmp_path.iterdir())) == 2


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


DAMAGES = {
    "a byte flipped": flip_a_byte,
    "empty": lambda file: os.truncate(file, 0),
    "of another": lambda file: file.write_bytes(next(file.parent.glob("*-000001-*")).read_bytes()),
    "a folder": lambda file: (file.unlink(), file.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_newest_is_detected_and_the_one_before_it_used(tmp_path, capsys, damage):
    _, newest = write(tmp_path, 1, 2)
    damage(newest)
    assert found_epoch(tmp_path) == 1
    out = capsys.readouterr().out
    assert out.startswith(f"{newest}: the checkpoint is damaged (")
    assert out.endswith("); trying the one before it\n")
    assert not newest.is_file(), "it would count towards the maximum"


def test_nothing_is_pickled_or_unpickled(tmp_path):
    pickled = np.array([{"a": 1}], object)
    with pytest.raises(ValueError, match="allow_pickle"):
        write_checkpoint(tmp_path, RUN, Checkpoint(1, {"x": pickled}, {}))
    content = json.dumps({"epoch": 1, "progress": {}}).encode()
    np.savez(tmp_path / "made.npz", **{"content": np.frombuffer(content, np.uint8), "state:x": pickled})
    digest = checkpoints.sha256_of(tmp_path / "made.npz")
    (file,) = write(tmp_path, 1)
    os.replace(tmp_path / "made.npz", tmp_path / f"{file.name.rpartition('-')[0]}-{digest}.npz")
    file.unlink()
    assert newest_checkpoint(tmp_path, RUN) is None


class Killed(BaseException):
    """Stands for the end of the process: only Python's own unwinding happens after it."""


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left on device"), Killed()])
def test_an_error_or_a_crash_at_any_step_leaves_the_earlier_ones(tmp_path, monkeypatch, step, error):
    files = write(tmp_path, 1, 2)

    def fail(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fail)
        with pytest.raises(type(error)):
            write(tmp_path, 3)
    left = [tmp_path / PART] if isinstance(error, Killed) else []
    assert sorted(tmp_path.iterdir()) == [*left, *files]
    assert found_epoch(tmp_path) == 2
    assert write(tmp_path, 3) and found_epoch(tmp_path) == 3
    assert not (tmp_path / PART).exists()


def test_the_data_are_flushed_to_disk_before_the_renaming(tmp_path, monkeypatch):
    steps = []
    real_fsync, real_replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda descriptor: (steps.append("fsync"), real_fsync(descriptor)))
    monkeypatch.setattr(os, "replace", lambda *paths: (steps.append("replace"), real_replace(*paths)))
    write(tmp_path, 1)
    assert steps == ["fsync", "replace", "fsync"]  # the file's, then the folder's


WRITER = """
import sys
from pathlib import Path
import numpy as np
from trainmark.training.checkpoints import Checkpoint, newest_checkpoint, write_checkpoint
folder = Path(sys.argv[1])
found = newest_checkpoint(folder, "run")
epoch = found.epoch if found else 0
print(epoch, flush=True)
while True:
    epoch += 1
    write_checkpoint(folder, "run", Checkpoint(epoch, {"weights": np.full(100_000, epoch)}, {"epochs": epoch}))
    print(epoch, flush=True)
"""


def test_after_each_of_six_kills_at_random_moments_there_is_an_intact_one(tmp_path):
    moments, written = random.Random(4), 0
    for _ in range(6):
        command = [sys.executable, "-c", WRITER, str(tmp_path)]
        writer = subprocess.Popen(command, env=importing(), stdout=subprocess.PIPE, text=True)
        try:
            assert int(writer.stdout.readline()) >= written, "the run did not resume from a checkpoint that was written"
            writer.stdout.readline()
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(moments.uniform(0, 0.03))
        finally:
            writer.send_signal(signal.SIGKILL)
            lines = writer.communicate()[0].split()
        written = int(lines[-1]) if lines else written + 1
        found = newest_checkpoint(tmp_path, "run")
        assert written <= found.epoch <= written + 1
        assert found.progress == {"epochs": found.epoch}
        assert np.array_equal(found.state["weights"], np.full(100_000, found.epoch))
        written = found.epoch
