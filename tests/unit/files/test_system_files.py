import pytest

from trainmark.files.system_files import is_added_by_system, own_paths

ADDED = (
    "@eaDir|@Recycle|__MACOSX|._1.jpg|.DS_Store|.AppleDouble|Icon\r|Thumbs.db|thumbs.db|Desktop.ini|$RECYCLE.BIN|"
    "$Recycle.Bin|System Volume Information|1.jpg:Zone.Identifier|.Trash-1000|.nfs0000000001|lost+found|#recycle|"
    ".ipynb_checkpoints|.picasaoriginals"
)
USERS = "1.jpg|_1.jpg|.hidden|thumbs|Thumbs.dbx|eaDir|recycle|MACOSX|a._b|lost|recycled"


@pytest.mark.parametrize("name", ADDED.split("|"))
def test_what_systems_add(name):
    assert is_added_by_system(name)


@pytest.mark.parametrize("name", USERS.split("|"))
def test_what_users_have(name):
    assert not is_added_by_system(name)


def test_own_paths_are_those_beside_what_systems_add(tmp_path):
    for name in ("b/x.json", "a/x.json", "a/._x.json", "@eaDir/x.json", "._a/x.json", "a/y.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [path.relative_to(tmp_path).as_posix() for path in own_paths(tmp_path, "**/*.json")] == [
        "a/x.json",
        "b/x.json",
    ]
    assert own_paths(tmp_path / "._a", "*.json"), "the folder itself is the user's choice"
