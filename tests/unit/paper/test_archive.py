"""The archive of a campaign: the same bytes whoever packs it, and every changed byte has a name."""

import json
import shutil
import subprocess
import zipfile

import pytest
from fabricated_campaigns import write_campaign

from trainmark.errors import DataError
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


def test_a_clone_with_changes_is_refused(results, clone, tmp_path):
    (clone / "CITATION.cff").write_text("changed")
    with pytest.raises(DataError, match=r"CITATION.cff was changed and not committed; commit it"):
        pack(read_results(results), read_plan(results / "plan.json"), clone, tmp_path / "a.zip", LICENSE)
    with pytest.raises(DataError, match="is no git clone"):
        pack(read_results(results), read_plan(results / "plan.json"), tmp_path, tmp_path / "a.zip", LICENSE)
