import pytest

from trainmark.files.system_files import is_added_by_system

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
