"""What runs on the remote machine: an old Python reads it, and its calls outlive who starts them."""

import ast
import sys
import time

import pytest
from harness import wait_for

from trainmark.remote import there


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder in which the call of a test waits for a file `end`, and ends with status 3."""
    monkeypatch.setattr(
        there, "WORK", "trap 'exit 130' INT; echo one; "
        "while [ ! -e end ]; do sleep .05; done; printf two; echo 3 > .remote/status"
    )  # fmt: skip
    last(there.note(str(tmp_path), "owner", "me"))
    return str(tmp_path)


def last(answers):
    return list(answers)[-1]


def test_an_old_python_reads_it_and_nothing_else_is_imported():
    with open(there.__file__) as file:
        tree = ast.parse(file.read(), feature_version=(3, 6))
    imported = [
        alias.name.partition(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
    ]
    assert imported and {*imported} <= sys.stdlib_module_names
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


def test_a_call_runs_once_and_its_lines_are_followed(folder):
    state = last(there.start(folder, {"config": "a"}, []))
    assert state["running"] and state["call"]["config"] == "a" and not state["status"]
    assert last(there.start(folder, {"config": "b"}, []))["call"] == state["call"]
    following = there.follow(folder, 0)
    assert next(following) == {"text": "one\n", "offset": 4}
    open(f"{folder}/end", "w").close()
    assert next(following) == {"text": "two", "offset": 7}
    ended = last(following)
    assert (ended["running"], ended["status"], ended["last_line"]) == (False, "3", "two")
    assert next(iter(there.follow(folder, 4)))["text"] == "two"


def test_a_stopped_call_has_no_status(folder):
    last(there.start(folder, {}, []))
    wait_for(lambda: last(there.look(folder))["last_line"] == "one", None)
    last(there.stop(folder))
    assert last(there.follow(folder, 0)) | {"call": None, "owner": None} == {
        "owner": None, "call": None, "running": False, "status": "", "fetched": False, "last_line": "one",
        "log_bytes": 4, "has_results": False,
    }  # fmt: skip


def test_a_child_of_the_call_keeps_the_lock(folder, monkeypatch):
    """Whoever was started by the shell, and outlives it, still works in the folder."""
    monkeypatch.setattr(there, "WORK", "(while [ ! -e end ]; do sleep .05; done) & echo 0 > .remote/status")
    last(there.start(folder, {}, []))
    wait_for(lambda: last(there.look(folder))["status"] == "0", None)
    assert last(there.look(folder))["running"]
    open(f"{folder}/end", "w").close()
    wait_for(lambda: not last(there.look(folder))["running"], None)


def test_a_long_silence_ends_the_following_and_not_the_call(folder, monkeypatch):
    last(there.start(folder, {}, []))
    monkeypatch.setattr(there, "FOLLOW_SECONDS", 0.2)
    began = time.time()
    assert last(there.follow(folder, 4))["running"] and time.time() - began < 5
    open(f"{folder}/end", "w").close()
    monkeypatch.undo()
    assert last(there.follow(folder, 4))["status"] == "3"


def test_an_error_of_the_system_is_an_answer(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    there.answer("note", {"folder": str(tmp_path / "file"), "name": "owner", "text": ""})
    assert capsys.readouterr().out.startswith(there.MARK + '{"error": "')
