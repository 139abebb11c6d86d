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
from trainmark.plan.plan_file import read_plan
from trainmark.tables.results import read_results

LICENSE = "https://creativecommons.org/publicdomain/zero/1.0/"


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "results"
    write_campaign("two trainers", folder, drawn=False)
    (folder / "logs").mkdir()
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
    pack(read_results(results), read_plan(results / "plan.json"), clone, out, LICENSE)
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
    assert {"README.md", "CITATION.cff", "config.json", "source/CITATION.cff", "results/tables/tidy.csv"} <= files
    assert not [name for name in files if "logs" in name or "raw" in name]
    assert "experiments" in json.loads((root / "config.json").read_text())
    assert LICENSE in (root / "README.md").read_text()
    check = ["sha256sum", "-c", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=root, capture_output=True, check=False).returncode == 0
    record = next((root / "results" / "runs").rglob("record.json"))
    record.write_bytes(record.read_bytes()[:-1] + b" ")
    changed = subprocess.run(check, cwd=root, capture_output=True, text=True, check=False)
    assert changed.stdout == f"{record.relative_to(root)}: FAILED\n"


TEXT = b"cff-version: 1.2.0\nmessage: $Format:%H$ $Id$\n"
"""A text that git changes where it is told to."""


def hook(clone, other, monkeypatch):
    for name, value in {"DIR": ".git", "WORK_TREE": ".", "INDEX_FILE": ".git/index", "COMMON_DIR": ".git"}.items():
        monkeypatch.setenv(f"GIT_{name}", str(other / value))


def variables(clone, other, monkeypatch):
    """Settings given as variables: of the repository's objects, and of its config."""
    settings = {"OBJECT_DIRECTORY": str(other / ".git" / "objects"), "NAMESPACE": "other", "ATTR_SOURCE": "HEAD"}
    settings |= {"CONFIG_COUNT": "1", "CONFIG_KEY_0": "core.worktree", "CONFIG_VALUE_0": str(other)}
    for name, value in settings.items():
        monkeypatch.setenv(f"GIT_{name}", value)


def configured(**keys):
    def configure(clone, other, monkeypatch):
        for key, value in keys.items():
            git(clone, "config", key.replace("_", "."), value)

    return configure


def users_own(clone, other, monkeypatch):
    """The settings and the attributes of a user, for all of their repositories."""
    (other / "git").mkdir()
    (other / "git" / "config").write_text("[core]\n autocrlf = true\n[tar]\n umask = 0\n")
    (other / "git" / "attributes").write_text("* export-ignore\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(other))
    monkeypatch.setenv("HOME", str(other))


def attributes(clone, other, monkeypatch):
    (clone / ".git" / "info").mkdir(exist_ok=True)
    (clone / ".git" / "info" / "attributes").write_text("*.cff export-subst ident eol=crlf\nlibrary export-ignore\n")


def checked_out_as_crlf(clone, other, monkeypatch):
    git(clone, "config", "core.autocrlf", "true")
    for file in clone.glob("*.cff"):
        file.unlink()
    git(clone, "checkout", "--", ".")
    assert b"\r\n" in (clone / "CITATION.cff").read_bytes()


def replaced(clone, other, monkeypatch):
    """A commit that shows the files of another one."""
    git(clone, "fetch", str(other), "HEAD")
    git(clone, "replace", "HEAD", "FETCH_HEAD")


def of_another_owner(clone, other, monkeypatch):
    """As in a container. The variable is from git's own tests."""
    monkeypatch.setitem(VARIABLES, "GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")


def shallow(clone, other, monkeypatch):
    git(other, "clone", "--depth", "1", f"file://{clone}", str(other / "shallow"))
    return other / "shallow"


def worktree(clone, other, monkeypatch):
    git(clone, "worktree", "add", str(other / "tree"))
    return other / "tree"


def submodule(clone, other, monkeypatch):
    git(other, "-c", "protocol.file.allow=always", "submodule", "add", str(clone), "module")
    return other / "module"


def inside_another(clone, other, monkeypatch):
    shutil.rmtree(clone / ".git")
    return shutil.move(clone, other / "copy")


def without_repository(clone, other, monkeypatch):
    shutil.rmtree(clone / ".git")


def tracked_by_another(clone, other, monkeypatch):
    copy = inside_another(clone, other, monkeypatch)
    git(other, "add", ".")
    git(other, "commit", "-m", "With a copy.")
    return copy


def changed(clone, other, monkeypatch):
    (clone / "library" / "code.py").write_text("changed")


def renamed(clone, other, monkeypatch):
    git(clone, "mv", "library/code.py", "library/other.py")


def without_commit(clone, other, monkeypatch):
    git(clone, "update-ref", "-d", "HEAD")
    git(clone, "rm", "-r", "--cached", ".")


def without_git(clone, other, monkeypatch):
    monkeypatch.setenv("PATH", str(other))


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        (hook, None),
        (variables, None),
        (configured(core_autocrlf="true"), None),
        (configured(core_eol="crlf", core_attributesFile="/nowhere"), None),
        (configured(core_fsmonitor="sleep 100; true"), None),
        (users_own, None),
        (attributes, None),
        (checked_out_as_crlf, None),
        (replaced, None),
        (of_another_owner, None),
        (shallow, None),
        (worktree, None),
        (submodule, None),
        (configured(core_worktree="/tmp"), "is no git clone but lies in that of /tmp|is no git clone with a commit"),
        (inside_another, "is no git clone but lies in that of .*/other: call archive.py in a clone"),
        (tracked_by_another, "is no git clone but lies in that of .*/other: call archive.py in a clone"),
        (changed, "library/code.py was changed and not committed; commit it"),
        (renamed, "library/other.py was changed and not committed; commit it"),
        (without_commit, "is no git clone with a commit that could be packed: fatal: Needed a single revision"),
        (without_repository, "is no git clone with a commit that could be packed: fatal: not a git repository"),
        (without_git, "is no git clone with a commit that could be packed: .*No such file or directory: 'git'"),
    ],
)
def test_the_source_is_that_of_the_commit_or_the_clone_is_refused(results, tmp_path, monkeypatch, case, refusal):
    """As a commit has it, byte for byte, whatever git and the machine are set to."""
    clone, other = tmp_path / "clone", tmp_path / "other"
    for folder in (clone, other):
        (folder / "library").mkdir(parents=True)
        git(folder, "init")
        for name in ("CITATION.cff", "library/code.py"):
            (folder / name).write_bytes(TEXT if folder is clone else b"another's")
        (folder / "library" / "Größe 1.py").write_text("x = 1\n")
        git(folder, "add", ".")
        git(folder, "commit", "-m", folder.name)
    commit = subprocess.run(["git", "-C", clone, "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    clone = case(clone, other, monkeypatch) or clone
    if refusal:
        with pytest.raises(DataError, match=refusal):
            packed(results, clone, tmp_path / "a.zip")
        return
    with zipfile.ZipFile(packed(results, clone, tmp_path / "a.zip")) as archive:
        source = {name: archive.read(name) for name in archive.namelist() if name.startswith("a/source/")}
        assert source.pop("a/source/library/Größe 1.py") == b"x = 1\n"
        assert source == {f"a/source/{name}": TEXT for name in ("CITATION.cff", "library/code.py")}
        assert archive.read("a/CITATION.cff") == TEXT
        assert f", commit {commit}. " in archive.read("a/README.md").decode()
