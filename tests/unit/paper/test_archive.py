"""The archive of a campaign: the same bytes whoever packs it, and every changed byte has a name."""

import json
import shutil
import subprocess
import zipfile

import pytest
from fabricated_campaigns import write_campaign

from trainmark.errors import DataError
from trainmark.machine.git import VARIABLES
from trainmark.paper.archive import pack
from trainmark.tables.sections import read_results

LICENSE = "https://creativecommons.org/publicdomain/zero/1.0/"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "results"
    write_campaign("two trainers", folder, drawn=False)
    (folder / "logs").mkdir()
    (folder / "paper" / ".git").mkdir(parents=True)
    (folder / "paper" / ".git" / "config").write_text("token")
    (folder / "paper" / "numbers.tex").write_text("ours")
    (folder / "paper" / "files.json").write_text('["files.json", "numbers.tex"]')
    (folder / "logs" / "train.log").write_text("a log")
    (folder / "datasets" / "digits" / "raw").mkdir()
    (folder / "datasets" / "digits" / "raw" / "digits.csv").write_text("data")
    return folder


@pytest.fixture
def clone(tmp_path):
    """A small clone with a commit."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "CITATION.cff").write_text("cff-version: 1.2.0\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "All.")
    return folder


def packed(results, clone, out):
    pack(read_results(results), clone, out, LICENSE)
    return out


def test_the_archive_is_the_same_whoever_packs_it_and_when(results, clone, tmp_path, monkeypatch):
    first = packed(results, clone, tmp_path / "archive.zip")
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    copy = shutil.copytree(results, tmp_path / "elsewhere")
    (tmp_path / "b").mkdir()
    assert packed(copy, clone, tmp_path / "b" / "archive.zip").read_bytes() == first.read_bytes()


def test_it_has_what_others_need_and_sums_that_name_a_changed_file(results, clone, tmp_path):
    with zipfile.ZipFile(packed(results, clone, tmp_path / "archive.zip")) as archive:
        archive.extractall(tmp_path)
    root = tmp_path / "archive"
    files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    assert {"README.md", "CITATION.cff", "config.json", "source/CITATION.cff", "results/tables/numbers.csv"} <= files
    assert {name for name in files if "paper" in name} == {"results/paper/files.json", "results/paper/numbers.tex"}
    assert not [name for name in files if "logs" in name or "raw" in name]
    assert "experiments" in json.loads((root / "config.json").read_text())
    assert LICENSE in (root / "README.md").read_text()
    check = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=root, capture_output=True, check=False).returncode == 0
    record = next((root / "results" / "runs").rglob("record.json"))
    record.write_bytes(record.read_bytes()[:-1] + b" ")
    changed = subprocess.run(check, cwd=root, capture_output=True, text=True, check=False)
    assert changed.stdout == f"{record.relative_to(root)}: FAILED\n"


TEXT = "cff-version: 1.2.0\nmessage: $Format:%H$ $Id$\n"
"""A text that git changes where it is told to."""

HOOK = {f"GIT_{name}": f"other/.git/{path}" for name, path in {"DIR": "", "INDEX_FILE": "index"}.items()}
OTHERS = {"GIT_OBJECT_DIRECTORY": "other/.git/objects", "GIT_NAMESPACE": "other", "GIT_ATTR_SOURCE": "HEAD"}
WORK_TREE = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.worktree", "GIT_CONFIG_VALUE_0": "other"}
OWNER = {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}  # from git's own tests, as in a container
USERS = "mkdir git; echo '* export-ignore' > git/attributes; printf '[core]\nautocrlf = true' > git/config"
COPY = "mv clone other/clone; rm -rf other/clone/.git"
LIES = "is no git clone but lies in that of .*: call archive.py in a clone"
NONE = "is no git clone with a commit that could be packed: "


@pytest.mark.parametrize(
    ("commands", "variables", "folder", "refusal"),
    [
        (":", HOOK | {"GIT_WORK_TREE": "other", "GIT_COMMON_DIR": "other/.git"}, "clone", None),
        (":", OTHERS, "clone", None),
        (":", WORK_TREE, "clone", None),
        (":", OWNER, "clone", None),
        (USERS, {"XDG_CONFIG_HOME": ""}, "clone", None),
        (
            "cd clone; git config core.autocrlf true; rm *.cff; git checkout -- .; grep -q $'\r' *.cff",
            {},
            "clone",
            None,
        ),
        ("cd clone; git config core.fsmonitor 'sleep 100; true'", {}, "clone", None),
        ("echo '*.cff export-subst ident eol=crlf' > clone/.git/info/attributes", {}, "clone", None),
        ("echo 'library export-ignore' > clone/.git/info/attributes", {}, "clone", None),
        ("cd clone; git fetch -q ../other HEAD; git replace HEAD FETCH_HEAD", {}, "clone", None),
        ("git clone -q --depth 1 file://$PWD/clone shallow", {}, "shallow", None),
        ("git -C clone worktree add -q ../tree", {}, "tree", None),
        ("git -C other -c protocol.file.allow=always submodule add -q ../clone module", {}, "other/module", None),
        ("git -C clone config core.worktree /tmp", {}, "clone", LIES),
        (COPY, {}, "other/clone", LIES),
        (f"{COPY}; cd other; git add .; git -c user.name=a -c user.email=a@b commit -qm copy", {}, "other/clone", LIES),
        ("rm -rf clone/.git", {}, "clone", f"{NONE}fatal: not a git repository"),
        ("cd clone; git update-ref -d HEAD; git rm -rq --cached .", {}, "clone", f"{NONE}fatal: Needed a single rev"),
        (":", {"PATH": "other"}, "clone", "there is no git on the PATH"),
        ("echo >> clone/library/code.py", {}, "clone", "library/code.py was changed and not committed; commit it"),
        *(
            (
                f"cd clone; git update-index --{hides} *.cff; echo >> CITATION.cff",
                {},
                "clone",
                "CITATION.cff may have changes that git was told to hide",
            )
            for hides in ("assume-unchanged", "skip-worktree")
        ),
        ("cd clone; git mv library/code.py b", {}, "clone", "clone/b was changed and not committed; commit it"),
    ],
)
def test_the_source_is_that_of_the_commit_or_the_clone_is_refused(
    results, tmp_path, monkeypatch, commands, variables, folder, refusal
):
    """As a commit has it, byte for byte, whatever git and the machine are set to. variables: with paths in tmp_path."""
    for name, text in {"clone": TEXT, "other": "another's"}.items():
        (tmp_path / name / "library").mkdir(parents=True)
        for file in ("CITATION.cff", "library/code.py", "library/Größe 1.py"):
            (tmp_path / name / file).write_text(text)
        git(tmp_path / name, "init")
        git(tmp_path / name, "add", ".")
        git(tmp_path / name, "commit", "-m", name)
    head = ["git", "-C", tmp_path / "clone", "rev-parse", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout.strip()
    monkeypatch.setenv("HOME", str(tmp_path))
    subprocess.run(["bash", "-ec", commands], cwd=tmp_path, check=True)
    for name, value in variables.items():
        monkeypatch.setenv(name, str(tmp_path / value) if (tmp_path / value).exists() else value)
        if name in OWNER:
            monkeypatch.setitem(VARIABLES, name, value)
    if refusal:
        with pytest.raises(DataError, match=refusal):
            packed(results, tmp_path / folder, tmp_path / "a.zip")
        return
    with zipfile.ZipFile(packed(results, tmp_path / folder, tmp_path / "a.zip")) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist() if "results/" not in name}
    assert f", commit {commit}. " in texts.pop("a/README.md")
    del texts["a/config.json"], texts["a/SHA256SUMS"]
    files = (
        "a/CITATION.cff",
        *(f"a/source/{name}" for name in ("CITATION.cff", "library/Größe 1.py", "library/code.py")),
    )
    assert texts == dict.fromkeys(files, TEXT)
