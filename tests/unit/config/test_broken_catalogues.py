"""What a person reads when the catalogue is wrong, or what a config puts over it."""

import copy
from pathlib import Path

import pytest
from config_messages import assert_says, message_of, write

from trainmark.config.catalogue_check import check_catalogue
from trainmark.errors import ConfigError

pytestmark = pytest.mark.usefixtures("in_tmp_path")

# --- the catalogue ------------------------------------------------------------------------------------------------

FILE = {"name": "a.gz", "sha256": "0" * 64, "urls": ["https://example.org/a.gz"]}
ENTRY = {
    "title": "T", "format": "idx", "image_shape": [1, 28, 28], "classes": 10, "samples": {"train": 2, "test": 1},
    "files": [FILE],
}  # fmt: skip


def test_a_right_catalogue_passes_and_leaves_the_schema_as_it_is(schema):
    """The schema is narrowed for each catalogue anew."""
    before = copy.deepcopy(schema)
    assert check_catalogue({"d": ENTRY}, Path("datasets.yaml"), schema) is None
    assert schema == before


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"urls": None}, ": lacks the key urls; …"),
        ({"sha256": "ABC"}, ".sha256: found 'ABC' (text); …64 hexadecimal digits…"),
        ({"sha256": "0" * 64 + "\n"}, f".sha256: found '{'0' * 55}...' (text); …"),
        ({"sha256": None, "md5": "a" * 64}, f".md5: found '{'a' * 55}...' (text); …32 hexadecimal digits…"),
        ({"md5": "a" * 32}, ": found both sha256 and md5; allowed: one of them"),
        ({"sha256": None}, ": lacks the key sha256 or md5; allowed: one of them"),
        ({"name": "../x"}, ".name: found '../x' (text); …"),
        ({"name": "a.gz\n"}, r".name: found 'a.gz\n' (text); …"),
        (
            {"urls": ["https://me:pa@ss@example.org/a.gz"]},
            ".urls[0]: found 'https://...example.org/a.gz' (text); allowed: an http(s):// or file:// address without "
            "user name and query; one that holds a key goes into mirror",
        ),
        ({"urls": ["https://host/a?sig=secret"]}, ".urls[0]: found 'https://host/a?...' (text); …; …mirror"),
        ({"urls": ["https://example.org/a.gz\n"]}, r".urls[0]: found 'https://example.org/a.gz\n' (text); …; …mirror"),
        ({"bytes": 0}, ".bytes: found 0 (a whole number); …"),
    ],
)
def test_a_file(changes, expected, schema):
    file = {key: value for key, value in (FILE | changes).items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        check_catalogue({"d": ENTRY | {"files": [file]}}, Path("datasets.yaml"), schema)
    assert_says(str(caught.value), expected, "datasets.yaml: d.files[0]")


# --- what a config puts over it -----------------------------------------------------------------------------------

FOLDER = "title: T, format: image_folder, folder: f, "
LISTED = "title: T, format: image_list, folder: f"
SUBSET = "title: T, format: class_subset, seed: 1, "
REVIEWS = "title: T, format: reviews, classes: 2, samples: {train: 2, test: 1}, files: "
ARCHIVE = f"{{name: a.tgz, urls: [], sha256: {'a' * 64}}}"


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        # --- what an entry needs
        ("", ": lacks the key title; …\n: lacks the key format; …"),
        (REVIEWS + f"[{ARCHIVE}]", ": lacks the key sequence_length; …\n: lacks the key vocabulary_size; …5 or more"),
        ("title: T, format: image_folder", ": lacks the key files or folder; allowed: one of them, or both"),
        # --- the keys of its format
        (FOLDER + "vocabulary_size: 10", ".vocabulary_size: unknown key; allowed: title, format, …, files"),
        ("title: T, format: 5", ".format: found 5 (a whole number); …"),
        ("title: T, format: idxx", ".format: found 'idxx' (text); allowed: class_subset, …; did you mean idx?"),
        # --- values
        (FOLDER + "unreadable_share: 2", ".unreadable_share: found 2 (a whole number); …"),
        (FOLDER + "class_names: [cat, dog, cat]", ".class_names: found 'cat' (text) twice; …"),
        (FOLDER + "class_names: [a, no]", ".class_names[1]: found false (true or false); …"),
        (FOLDER + r'class_names: [a, "b\nc"]', r".class_names[1]: found 'b\nc' (text); …one line"),
        # --- paths that leave the folder
        *(
            (f"{FOLDER}root: {root}", f".root: found '{root}' (text); …without ..")
            for root in ("/data", "../x", "a/..")
        ),
        (FOLDER + "root: ''", ".root: found '' (text); …without ..; or leave the key out"),
        (FOLDER + r'root: "a\n/.."', r".root: found 'a\n/..' (text); …"),
        # --- lists, and test images that are drawn
        (LISTED, ": lacks the key lists; …"),
        (LISTED + ", lists: {train: t, test: ''}", ".lists.test: found '' (text); …"),
        (LISTED + ", lists: {train: t, val: v}", ".lists: lacks the key test; …\n.lists.val: unknown key; …"),
        (FOLDER + "test_share: 0", ".test_share: found 0 (a whole number); allowed: a number between 0 and 1"),
        (FOLDER + "test_share: 1", ".test_share: found 1 (a whole number); allowed: a number between 0 and 1"),
        (FOLDER + "seed: -1", ".seed: found -1 (a whole number); …"),
        # --- keys that don't fit one another
        (FOLDER + "classes: 2, class_names: [a, b, c]", ".class_names: found 3 names; …as classes, 2"),
        # --- choices of classes
        (SUBSET + "of: imagenete, classes: 2", ".of: found 'imagenete' (text), which is no dataset; …; …imagenette?"),
        (
            SUBSET + "of: mini-imagenet-8, classes: 2",
            ".of: found 'mini-imagenet-8' (text), which is a part of another dataset itself; allowed: digits, mnist, "
            "fashion-mnist, imdb, imdb-keras, imagenette-160, imagenette-320, imagenette, ilsvrc2012, image-folder, "
            "synthetic-images",
        ),
        (SUBSET + "of: mine, classes: 2", ".of: found 'mine' (text), …a part of another dataset itself; …"),
        (
            "title: T, format: validation_split, seed: 1, test_share: 0.1, of: mine",
            ".of: found 'mine' (text), …a part of another dataset itself; …",
        ),
        ("title: T, format: validation_split, seed: 1, of: mnist", ": lacks the key test_share; …"),
        (SUBSET + "of: mnist, classes: 11", ".classes: found 11; …the 10 classes of mnist"),
        (SUBSET + "of: mnist, classes: 2, packed: true", ".packed: found true; …mnist is an array already"),
    ],
)
def test_a_dataset_of_ones_own(keys, expected):
    message = message_of(write(f"prepare: [mine]\ndatasets: {{mine: {{{keys}}}}}\n"))
    assert_says(message, expected, "broken.yaml: datasets.mine")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("imdb: {sequence_lenght: 80}", "imdb.sequence_lenght: unknown key; …; did you mean sequence_length?"),
        ("ilsvrc2012: {root: train}", "ilsvrc2012.root: unknown key; …samples, folder, packed, …, files"),
        ("mnist: {files: []}", "mnist.files: found an empty list; …"),
        ("mnist: {classes: 1}", "mnist.classes: found 1 (a whole number); …"),
        ("mnist: {image_shape: [28, 28]}", "mnist.image_shape: found [28, 28] (a list); …"),
        ("imagenette: {class_names: [a, b]}", "imagenette.class_names: found 2 names; allowed: as many as classes, 10"),
        (f"imagenette: {{files: [{ARCHIVE}, {ARCHIVE}]}}", "imagenette.files[1].name: found 'a.tgz' (text) twice; …"),
        (f"2017: {{{FOLDER}}}", "2017: found the name 2017 (a whole number); …; write it in quotes"),
        ("imdb: {sequence_length: 0}", "imdb.sequence_length: found 0 (a whole number); …"),
        ("imdb-keras: {vocabulary_size: 4}", "imdb-keras.vocabulary_size: found 4 (a whole number); …"),
        ("image-folder: {folder: ''}", "image-folder.folder: found '' (text); …"),
        ("mnist: {samples: {train: 5, test: 0}}", "mnist.samples.test: found 0 (a whole number); …"),
        ("imagenette: {classes: 9}", "imagenette.classes: found 9; …as class_names, 10"),
        ("mini-imagenet-8: {classes: 1001}", "mini-imagenet-8.classes: found 1001; …the 1000 classes of ilsvrc2012"),
        ("ilsvrc2012: {classes: 20}", "ilsvrc2012.classes: found 20; …32 or more, since mini-imagenet-32…"),
        ("mine: ", "mine: found nothing (null); …"),
    ],
)
def test_an_entry_put_over_the_catalogue(entry, expected):
    assert_says(message_of(write(f"prepare: [digits]\ndatasets: {{{entry}}}\n")), expected, "broken.yaml: datasets.")


def test_what_is_wrong_with_the_config_itself_comes_before_its_datasets():
    message = message_of(write("offline: 1\nprepare: [mine, mine]\ndatasets:\n  mine: {title: T}\n"))
    assert_says(message, "offline: found 1 (a whole number); …\nprepare: found 'mine' (text) twice; …", "broken.yaml: ")


# --- which file is to blame ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("earlier", "later", "expected"),
    [
        (f"mine: {{{FOLDER}}}", "mine: {classes: 1}", "b.yaml: datasets.mine.classes: found 1 (a whole number); …"),
        (f"mine: {{{FOLDER}lists: 9}}", "mine: {classes: 3}", "a.yaml: datasets.mine.lists: unknown key; …"),
        (
            "fashion-mnist: {classes: 9}",
            "fashion-mnist: {title: T}",
            "a.yaml: datasets.fashion-mnist.classes: found 9; …class_names, 10",
        ),
        (
            f"mine: {{{FOLDER}class_names: [a, b, c]}}",
            "mine: {classes: 2}",
            "a.yaml: datasets.mine.class_names: found 3 names; …classes, 2",
        ),
        (
            f"mine: {{{FOLDER}}}, mnist: {{title: T}}",
            "mnist: {format: idxx}",
            "b.yaml: datasets.mnist.format: found 'idxx' (text); allowed: idx, or another name for your own dataset",
        ),
    ],
)
def test_the_file_that_is_blamed(earlier, later, expected):
    write(f"prepare: [digits]\ndatasets: {{{earlier}}}\n", "a.yaml")
    write(f"datasets: {{{later}}}\n", "b.yaml")
    assert_says(message_of("a.yaml", "b.yaml"), expected, "")
