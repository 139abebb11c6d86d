"""What systems add beside the user's own files."""

from trainmark.files.system_files import is_added_by_system, own_paths

ADDED = "@eaDir|@Recycle|__MACOSX|._1.jpg|Icon\r|thumbs.db|$Recycle.Bin|1.jpg:Zone.Identifier|.nfs01|lost+found"
USERS = "1.jpg|_1.jpg|.hidden|thumbs|Thumbs.dbx|eaDir|recycle|a._b|lost|recycled"


def test_what_systems_add_and_what_users_have():
    assert [name for name in ADDED.split("|") if not is_added_by_system(name)] == []
    assert [name for name in USERS.split("|") if is_added_by_system(name)] == []


def test_own_paths_are_those_beside_what_systems_add(tmp_path):
    for name in ("b/x.json", "a/x.json", "a/._x.json", "@eaDir/x.json", "._a/x.json", "a/y.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert own_paths(tmp_path, "**/*.json") == [tmp_path / "a/x.json", tmp_path / "b/x.json"]
    assert own_paths(tmp_path / "._a", "*.json"), "the folder itself is the user's choice"
