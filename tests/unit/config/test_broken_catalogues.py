"""What a person reads when the catalogue is wrong, or what a config puts over it: the whole message, word for word."""

import copy
from pathlib import Path

import pytest
from config_messages import message_of, one_line_each, write

from trainmark.config.catalogue_check import check_catalogue
from trainmark.errors import ConfigError

pytestmark = pytest.mark.usefixtures("in_tmp_path")

NAME = "lower-case letters, digits and hyphens, 40 at most"
FROM_0 = "a whole number, 0 or more"
FROM_1 = "a whole number, 1 or more"
FROM_2 = "a whole number, 2 or more"
FROM_5 = "a whole number, 5 or more"
SHA256 = "64 hexadecimal digits in lower case"
MD5 = "32 hexadecimal digits in lower case"
ADDRESS = "an http(s):// or file:// address without user name and query; one that holds a key goes into mirror"
URLS = "a list of http(s):// or file:// addresses"
ENTRY_FORM = "a mapping of title, format and the keys of that format"
FORMATS = "class_subset, digits, encoded_reviews, idx, ilsvrc2012, image_folder, reviews, synthetic"
WHOLE_DATASETS = (
    "digits, mnist, fashion-mnist, imdb, imdb-keras, imagenette-160, imagenette-320, imagenette, ilsvrc2012, "
    "image-folder, synthetic-images"
)
KEYS_OF = {
    "class_subset": "title, format, classes, samples, of, seed, packed",
    "idx": "title, format, classes, class_names, samples, image_shape, files",
    "image_folder": (
        "title, format, classes, class_names, samples, folder, root, lists, packed, unreadable_share, files"
    ),
    "ilsvrc2012": "title, format, classes, samples, folder, packed, unreadable_share, files",
    "reviews": "title, format, classes, samples, sequence_length, vocabulary_size, files",
    "synthetic": "title, format, classes, class_names, samples, image_shape, seed",
}

# --- the catalogue ------------------------------------------------------------------------------------------------

FILE = {"name": "a.gz", "sha256": "0" * 64, "urls": ["https://example.org/a.gz"]}
ENTRY = {
    "title": "T", "format": "idx", "image_shape": [1, 28, 28], "classes": 10, "samples": {"train": 2, "test": 1},
    "files": [FILE],
}  # fmt: skip


def entry(**changes) -> dict:
    """A catalogue of one right entry, d, with these keys changed; None takes a key away."""
    return {"d": {key: value for key, value in (ENTRY | changes).items() if value is not None}}


def file_entry(**changes) -> dict:
    return entry(files=[{key: value for key, value in (FILE | changes).items() if value is not None}])


CATALOGUES = [
    ("missing key", entry(classes=None), f"d: lacks the key classes; allowed: {FROM_2}"),
    ("missing key of a file", file_entry(urls=None), f"d.files[0]: lacks the key urls; allowed: {URLS}"),
    ("missing split", entry(samples={"train": 3}), f"d.samples: lacks the key test; allowed: {FROM_1}"),
    (
        "sha256 too short",
        file_entry(sha256="ABC"),
        f"d.files[0].sha256: found 'ABC' (text); allowed: {SHA256}",
    ),
    (
        "sha256 in capitals",
        file_entry(sha256="A" * 64),
        f"d.files[0].sha256: found '{'A' * 55}...' (text); allowed: {SHA256}",
    ),
    (
        "file name that leaves the folder",
        file_entry(name="../x"),
        "d.files[0].name: found '../x' (text); allowed: a plain file name, without a folder",
    ),
    (
        "file name with a folder",
        file_entry(name="a/b"),
        "d.files[0].name: found 'a/b' (text); allowed: a plain file name, without a folder",
    ),
    (
        "address that can't be fetched",
        file_entry(urls=["ftp://x"]),
        f"d.files[0].urls[0]: found 'ftp://x' (text); allowed: {ADDRESS}",
    ),
    (
        "address with a password",
        file_entry(urls=["https://me:pa@ss@example.org/a.gz"]),
        f"d.files[0].urls[0]: found 'https://...example.org/a.gz' (text); allowed: {ADDRESS}",
    ),
    (
        "address with a key",
        file_entry(urls=["https://example.org/a.gz?sig=secret"]),
        f"d.files[0].urls[0]: found 'https://example.org/a.gz?...' (text); allowed: {ADDRESS}",
    ),
    (
        "address with a line break",
        file_entry(urls=["https://example.org/a.gz\n"]),
        f"d.files[0].urls[0]: found 'https://example.org/a.gz\\n' (text); allowed: {ADDRESS}",
    ),
    (
        "unknown format, nearest",
        entry(format="idxx"),
        f"d.format: found 'idxx' (text); allowed: {FORMATS}; did you mean idx?",
    ),
    ("unknown format, nothing near", entry(format="zip"), f"d.format: found 'zip' (text); allowed: {FORMATS}"),
    ("missing format", entry(format=None), f"d: lacks the key format; allowed: {FORMATS}"),
    ("missing files", entry(files=None), "d: lacks the key files; allowed: a list of files"),
    (
        "key of another format",
        entry(embedded_in="scikit-learn"),
        f"d.embedded_in: unknown key; allowed: {KEYS_OF['idx']}",
    ),
    (
        "both sha256 and md5",
        file_entry(md5="a" * 32),
        "d.files[0]: found both sha256 and md5; allowed: one of them",
    ),
    (
        "neither sha256 nor md5",
        file_entry(sha256=None),
        "d.files[0]: lacks the key sha256 or md5; allowed: one of them",
    ),
    ("md5 too short", file_entry(sha256=None, md5="abc"), f"d.files[0].md5: found 'abc' (text); allowed: {MD5}"),
    (
        "md5 that is a sha256",
        file_entry(sha256=None, md5="a" * 64),
        f"d.files[0].md5: found '{'a' * 55}...' (text); allowed: {MD5}",
    ),
    ("no bytes", file_entry(bytes=0), f"d.files[0].bytes: found 0 (a whole number); allowed: {FROM_1}"),
    ("bytes as text", file_entry(bytes="9 kB"), f"d.files[0].bytes: found '9 kB' (text); allowed: {FROM_1}"),
    (
        "url for urls",
        file_entry(url="https://example.org/a.gz"),
        "d.files[0].url: unknown key; allowed: name, bytes, sha256, md5, urls; did you mean urls?",
    ),
    (
        "fewer names than classes",
        entry(class_names=["a", "b"]),
        "d.class_names: found 2 names; allowed: as many as classes, 10",
    ),
    ("nothing", {"d": None}, f"d: found nothing (null); allowed: {ENTRY_FORM}"),
    (
        "number as a name",
        {5: ENTRY},
        f"5: found the name 5 (a whole number); allowed: {NAME}; write it in quotes",
    ),
    (
        "sha256 with a line break",
        file_entry(sha256="0" * 64 + "\n"),
        f"d.files[0].sha256: found '{'0' * 55}...' (text); allowed: {SHA256}",
    ),
    (
        "file name with a line break",
        file_entry(name="a.gz\n"),
        "d.files[0].name: found 'a.gz\\n' (text); allowed: a plain file name, without a folder",
    ),
    (
        "the same file name twice",
        entry(files=[FILE, FILE | {"sha256": "1" * 64}]),
        "d.files[1].name: found 'a.gz' (text) twice; allowed: each file name once",
    ),
    ("no files", entry(files=[]), "d.files: found an empty list; allowed: a list of files"),
    ("unknown key", entry(clases=3), f"d.clases: unknown key; allowed: {KEYS_OF['idx']}; did you mean classes?"),
    ("one class", entry(classes=1), f"d.classes: found 1 (a whole number); allowed: {FROM_2}"),
    (
        "image_shape of two sides",
        entry(image_shape=[28, 28]),
        "d.image_shape: found [28, 28] (a list); allowed: a list of channels, height and width",
    ),
    (
        "name of an entry",
        {"My Set": ENTRY},
        f"'My Set': found the name 'My Set' (text); allowed: {NAME}",
    ),
]


def catalogue_message(catalogue: dict, schema: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        check_catalogue(copy.deepcopy(catalogue), Path("datasets.yaml"), schema)
    return str(caught.value)


def test_a_right_catalogue_passes_and_leaves_the_schema_as_it_is(schema):
    """The schema is narrowed for each catalogue anew."""
    before = copy.deepcopy(schema)
    assert check_catalogue(entry(), Path("datasets.yaml"), schema) is None
    assert schema == before


@pytest.mark.parametrize(
    ("catalogue", "expected"), [case[1:] for case in CATALOGUES], ids=[case[0] for case in CATALOGUES]
)
def test_the_whole_message_of_a_broken_catalogue(catalogue, expected, schema):
    message = catalogue_message(catalogue, schema)
    assert message == f"datasets.yaml: {expected}"
    one_line_each(message, "datasets.yaml")


@pytest.mark.parametrize("catalogue", [entry(classes=None, title=None), {"d": None}], ids=["two missing", "null"])
def test_a_finding_in_the_catalogue_is_listed_once(catalogue, schema):
    one_line_each(catalogue_message(catalogue, schema), "datasets.yaml")


# --- what a config puts over it -----------------------------------------------------------------------------------

FOLDER = "title: T, format: image_folder, folder: f"
SUBSET = "title: T, format: class_subset"
ARCHIVE = f"{{name: a.tgz, urls: [], sha256: {'a' * 64}}}"
IN_THE_FOLDER = "a path in the folder, without .."
NO_DATASET = "which is no dataset"
A_CHOICE = "which is a choice of classes itself"


def own(keys: str, name: str = "mine") -> str:
    """A config that prepares a dataset with these keys (flow style) put over what the catalogue says of it."""
    return f"prepare: [{name}]\ndatasets:\n  {name}: {{{keys}}}\n"


def in_mine(path: str, sentence: str) -> str:
    return f"broken.yaml: datasets.mine{path}: {sentence}"


# (name of the case, text of the file, the whole message)
MESSAGES = [
    # --- what an entry needs
    (
        "own entry without a format",
        own("title: T, folder: f"),
        in_mine("", f"lacks the key format; allowed: {FORMATS}"),
    ),
    (
        "own entry without a title",
        own("format: image_folder, folder: f"),
        in_mine("", "lacks the key title; allowed: text"),
    ),
    (
        "own entry of nothing",
        own(""),
        in_mine("", "lacks the key title; allowed: text\n") + in_mine("", f"lacks the key format; allowed: {FORMATS}"),
    ),
    (
        "choice of classes without a seed",
        own(f"{SUBSET}, of: mnist, classes: 3"),
        in_mine("", f"lacks the key seed; allowed: {FROM_0}"),
    ),
    (
        "texts without a length and a vocabulary",
        own(f"title: T, format: reviews, classes: 2, samples: {{train: 2, test: 1}}, files: [{ARCHIVE}]"),
        in_mine("", f"lacks the key sequence_length; allowed: {FROM_1}\n")
        + in_mine("", f"lacks the key vocabulary_size; allowed: {FROM_5}"),
    ),
    (
        "image_folder with neither files nor folder",
        own("title: T, format: image_folder"),
        in_mine("", "lacks the key files or folder; allowed: one of them, or both"),
    ),
    (
        "ilsvrc2012 with neither files nor folder",
        own("title: T, format: ilsvrc2012, classes: 5"),
        in_mine("", "lacks the key files or folder; allowed: one of them, or both"),
    ),
    # --- the keys of its format
    (
        "key of another format",
        own(f"{FOLDER}, vocabulary_size: 10"),
        in_mine(".vocabulary_size", f"unknown key; allowed: {KEYS_OF['image_folder']}"),
    ),
    (
        "misspelt key",
        own(f"{FOLDER}, unreadable_shares: 0.5"),
        in_mine(
            ".unreadable_shares", f"unknown key; allowed: {KEYS_OF['image_folder']}; did you mean unreadable_share?"
        ),
    ),
    (
        "misspelt key of an entry of the catalogue",
        own("sequence_lenght: 80", "imdb"),
        f"broken.yaml: datasets.imdb.sequence_lenght: unknown key; allowed: {KEYS_OF['reviews']}; "
        "did you mean sequence_length?",
    ),
    (
        "packed of an array",
        own("packed: true", "mnist"),
        f"broken.yaml: datasets.mnist.packed: unknown key; allowed: {KEYS_OF['idx']}",
    ),
    (
        "class names of a choice of classes",
        own("class_names: [a, b, c, d, e, f, g, h]", "mini-imagenet-8"),
        f"broken.yaml: datasets.mini-imagenet-8.class_names: unknown key; allowed: {KEYS_OF['class_subset']}; "
        "did you mean classes?",
    ),
    (
        "root of ILSVRC2012",
        own("root: train", "ilsvrc2012"),
        f"broken.yaml: datasets.ilsvrc2012.root: unknown key; allowed: {KEYS_OF['ilsvrc2012']}",
    ),
    (
        "unknown format, nearest",
        own("title: T, format: image-folder, folder: f"),
        in_mine(".format", f"found 'image-folder' (text); allowed: {FORMATS}; did you mean image_folder?"),
    ),
    (
        "unknown format, nothing near",
        own("title: T, format: zip"),
        in_mine(".format", f"found 'zip' (text); allowed: {FORMATS}"),
    ),
    (
        "number as a format",
        own("title: T, format: 5"),
        in_mine(".format", f"found 5 (a whole number); allowed: {FORMATS}"),
    ),
    # --- the form of an entry
    (
        "text for an entry",
        "prepare: [mine]\ndatasets: {mine: f}\n",
        in_mine("", f"found 'f' (text); allowed: {ENTRY_FORM}"),
    ),
    (
        "list for an entry",
        "prepare: [mine]\ndatasets: {mine: [f]}\n",
        in_mine("", f"found ['f'] (a list); allowed: {ENTRY_FORM}"),
    ),
    (
        "entry of the catalogue as nothing",
        "prepare: [digits]\ndatasets: {mnist: null}\n",
        f"broken.yaml: datasets.mnist: found nothing (null); allowed: {ENTRY_FORM}",
    ),
    (
        "key of the catalogue as nothing",
        own("files: null", "mnist"),
        "broken.yaml: datasets.mnist.files: found nothing (null); allowed: a list of files",
    ),
    (
        "datasets as a list",
        "prepare: [mnist]\ndatasets: [mnist]\n",
        "broken.yaml: datasets: found ['mnist'] (a list); allowed: a mapping of dataset names to entries, under names "
        "of lower-case letters, digits and hyphens (40 at most)",
    ),
    (
        "name with capitals",
        own(FOLDER, "My_Set"),
        f"broken.yaml: datasets.My_Set: found the name 'My_Set' (text); allowed: {NAME}",
    ),
    (
        "name that leaves the folder",
        own(FOLDER, "../x"),
        f"broken.yaml: datasets.'../x': found the name '../x' (text); allowed: {NAME}",
    ),
    (
        "name that is a number",
        own(FOLDER, "2017"),
        f"broken.yaml: datasets.2017: found the name 2017 (a whole number); allowed: {NAME}; write it in quotes",
    ),
    # --- values
    (
        "text of no length",
        own("sequence_length: 0", "imdb"),
        f"broken.yaml: datasets.imdb.sequence_length: found 0 (a whole number); allowed: {FROM_1}",
    ),
    (
        "vocabulary of no words",
        own("vocabulary_size: 4", "imdb-keras"),
        f"broken.yaml: datasets.imdb-keras.vocabulary_size: found 4 (a whole number); allowed: {FROM_5}",
    ),
    (
        "negative seed",
        own("seed: -1", "mini-imagenet-8"),
        f"broken.yaml: datasets.mini-imagenet-8.seed: found -1 (a whole number); allowed: {FROM_0}",
    ),
    (
        "more than all unreadable",
        own(f"{FOLDER}, unreadable_share: 2"),
        in_mine(".unreadable_share", "found 2 (a whole number); allowed: a number from 0 to 1"),
    ),
    (
        "share in per cent",
        own(f"{FOLDER}, unreadable_share: 1%"),
        in_mine(".unreadable_share", "found '1%' (text); allowed: a number from 0 to 1"),
    ),
    (
        "share in quotes",
        own(f"{FOLDER}, unreadable_share: '0.5'"),
        in_mine(".unreadable_share", "found '0.5' (text); allowed: a number from 0 to 1; write it without quotes"),
    ),
    (
        "packed in quotes",
        own("packed: 'yes'", "imagenette"),
        "broken.yaml: datasets.imagenette.packed: found 'yes' (text); allowed: true or false; write it without quotes",
    ),
    (
        "no folder",
        own("folder: ''", "image-folder"),
        "broken.yaml: datasets.image-folder.folder: found '' (text); allowed: a folder",
    ),
    (
        "no samples in a split",
        own("samples: {train: 5, test: 0}", "synthetic-images"),
        f"broken.yaml: datasets.synthetic-images.samples.test: found 0 (a whole number); allowed: {FROM_1}",
    ),
    (
        "class name twice",
        own(f"{FOLDER}, class_names: [cat, dog, cat]"),
        in_mine(".class_names", "found 'cat' (text) twice; allowed: each value once"),
    ),
    (
        "class names that YAML reads as true and false",
        own(f"{FOLDER}, class_names: [yes, no]"),
        in_mine(".class_names[0]", "found true (true or false); allowed: text on one line\n")
        + in_mine(".class_names[1]", "found false (true or false); allowed: text on one line"),
    ),
    (
        "a class name of two lines",
        own(f'{FOLDER}, class_names: [a, "b\\nc"]'),
        in_mine(".class_names[1]", r"found 'b\nc' (text); allowed: text on one line"),
    ),
    (
        "checksum in the wrong key",
        own(f"title: T, format: image_folder, files: [{{name: a.tgz, urls: [], sha256: {'a' * 32}}}]"),
        in_mine(".files[0].sha256", f"found '{'a' * 32}' (text); allowed: {SHA256}"),
    ),
    # --- paths that leave the folder
    *(
        (
            f"root {root!r}",
            own(f"{FOLDER}, root: '{root}'"),
            in_mine(".root", f"found {root!r} (text); allowed: {IN_THE_FOLDER}"),
        )
        for root in ("/data", "..", "../x", "a/../../x", "a/..", "")
    ),
    (
        "root with a line break",
        own(f'{FOLDER}, root: "a\\n/.."'),
        in_mine(".root", f"found 'a\\n/..' (text); allowed: {IN_THE_FOLDER}"),
    ),
    (
        "absolute path of a list",
        own(f"{FOLDER}, lists: {{train: /data/train.txt, test: val.txt}}"),
        in_mine(".lists.train", "found '/data/train.txt' (text); allowed: a file in the folder, without .."),
    ),
    (
        "list that leaves the folder",
        own(f"{FOLDER}, lists: {{train: train.txt, test: ../val.txt}}"),
        in_mine(".lists.test", "found '../val.txt' (text); allowed: a file in the folder, without .."),
    ),
    (
        "list of val for test",
        own(f"{FOLDER}, lists: {{train: train.txt, val: val.txt}}"),
        in_mine(".lists", "lacks the key test; allowed: a file in the folder, without ..\n")
        + in_mine(".lists.val", "unknown key; allowed: train, test"),
    ),
    # --- keys that don't fit one another
    (
        "more names than classes",
        own(f"{FOLDER}, classes: 2, class_names: [a, b, c]"),
        in_mine(".class_names", "found 3 names; allowed: as many as classes, 2"),
    ),
    (
        "other names than the catalogue's classes",
        own("class_names: [fish, dog]", "imagenette"),
        "broken.yaml: datasets.imagenette.class_names: found 2 names; allowed: as many as classes, 10",
    ),
    (
        "other classes than the catalogue's names",
        own("classes: 9", "imagenette"),
        "broken.yaml: datasets.imagenette.classes: found 9; allowed: as many as class_names, 10",
    ),
    (
        "the same file name twice",
        own(f"title: T, format: image_folder, files: [{ARCHIVE}, {ARCHIVE}]"),
        in_mine(".files[1].name", "found 'a.tgz' (text) twice; allowed: each file name once"),
    ),
    # --- choices of classes
    (
        "of an unknown dataset, nearest",
        own(f"{SUBSET}, of: imagenete, classes: 2, seed: 1"),
        in_mine(".of", f"found 'imagenete' (text), {NO_DATASET}; allowed: {WHOLE_DATASETS}; did you mean imagenette?"),
    ),
    (
        "of an unknown dataset, nothing near",
        own(f"{SUBSET}, of: zebra, classes: 2, seed: 1"),
        in_mine(".of", f"found 'zebra' (text), {NO_DATASET}; allowed: {WHOLE_DATASETS}"),
    ),
    (
        "of a choice of classes",
        own(f"{SUBSET}, of: mini-imagenet-8, classes: 2, seed: 1"),
        in_mine(".of", f"found 'mini-imagenet-8' (text), {A_CHOICE}; allowed: {WHOLE_DATASETS}"),
    ),
    (
        "of itself",
        own(f"{SUBSET}, of: mine, classes: 2, seed: 1"),
        in_mine(".of", f"found 'mine' (text), {A_CHOICE}; allowed: {WHOLE_DATASETS}"),
    ),
    (
        "of two datasets",
        own(f"{SUBSET}, of: [mnist, digits], classes: 2, seed: 1"),
        in_mine(".of", "found ['mnist', 'digits'] (a list); allowed: a dataset that is no choice of classes itself"),
    ),
    (
        "more classes than there are",
        own(f"{SUBSET}, of: mnist, classes: 11, seed: 1"),
        in_mine(".classes", "found 11; allowed: at most the 10 classes of mnist"),
    ),
    (
        "more classes of ImageNet than there are",
        own("classes: 1001", "mini-imagenet-8"),
        "broken.yaml: datasets.mini-imagenet-8.classes: found 1001; allowed: at most the 1000 classes of ilsvrc2012",
    ),
    (
        "fewer classes of ImageNet than are chosen from",
        own("classes: 20", "ilsvrc2012"),
        "broken.yaml: datasets.ilsvrc2012.classes: found 20; "
        "allowed: 32 or more, since mini-imagenet-32 takes so many of them",
    ),
    (
        "packed choice of an array's classes",
        own(f"{SUBSET}, of: mnist, classes: 2, seed: 1, packed: true"),
        in_mine(".packed", "found true; allowed: false, since mnist is an array already"),
    ),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in MESSAGES], ids=[case[0] for case in MESSAGES])
def test_the_whole_message_of_a_broken_dataset_in_a_config(text, expected):
    message = message_of(write(text))
    assert message == expected
    one_line_each(message)


def test_the_tables_are_complete():
    assert len(CATALOGUES) + len(MESSAGES) >= 80
    for table in (CATALOGUES, MESSAGES):
        assert len({name for name, _, _ in table}) == len(table)


def test_what_is_wrong_with_the_config_itself_comes_before_its_datasets():
    text = "offline: 1\nprepare: [mine, mine]\ndatasets:\n  mine: {title: T}\n"
    assert message_of(write(text)) == (
        "broken.yaml: offline: found 1 (a whole number); allowed: true or false\n"
        "broken.yaml: prepare: found 'mine' (text) twice; allowed: each value once"
    )


# --- which file is to blame ---------------------------------------------------------------------------------------

BLAMED = [
    (
        "a key of the later file",
        f"datasets: {{mine: {{{FOLDER}}}}}\n",
        "datasets: {mine: {classes: 1}}\n",
        f"b.yaml: datasets.mine.classes: found 1 (a whole number); allowed: {FROM_2}",
    ),
    (
        "a key of the earlier file",
        f"datasets: {{mine: {{{FOLDER}, seed: 1}}}}\n",
        "datasets: {mine: {classes: 3}}\n",
        f"a.yaml: datasets.mine.seed: unknown key; allowed: {KEYS_OF['image_folder']}",
    ),
    (
        "fewer classes than the catalogue has names",
        "datasets: {fashion-mnist: {classes: 9}}\n",
        "datasets: {fashion-mnist: {title: T}}\n",
        "a.yaml: datasets.fashion-mnist.classes: found 9; allowed: as many as class_names, 10",
    ),
    (
        "fewer classes than the earlier file has names",
        f"datasets: {{mine: {{{FOLDER}, class_names: [a, b, c]}}}}\n",
        "datasets: {mine: {classes: 2}}\n",
        "a.yaml: datasets.mine.class_names: found 3 names; allowed: as many as classes, 2",
    ),
    (
        "fewer classes than the catalogue takes",
        "datasets: {ilsvrc2012: {classes: 31}}\n",
        "datasets: {ilsvrc2012: {folder: f}}\n",
        "a.yaml: datasets.ilsvrc2012.classes: found 31; "
        "allowed: 32 or more, since mini-imagenet-32 takes so many of them",
    ),
    (
        "a format that takes none of the entry's keys",
        "datasets: {mnist: {title: T}}\n",
        "datasets: {mnist: {format: idxx}}\n",
        "b.yaml: datasets.mnist.format: found 'idxx' (text); allowed: idx, or another name for a dataset of your own",
    ),
    (
        "another format for an entry of the catalogue",
        "datasets: {mine: {title: T, format: image_folder, folder: f}}\n",
        "datasets: {mnist: {format: synthetic, seed: 1}}\n",
        "b.yaml: datasets.mnist.format: found 'synthetic' (text); "
        "allowed: idx, or another name for a dataset of your own",
    ),
]


@pytest.mark.parametrize(
    ("earlier", "later", "expected"), [case[1:] for case in BLAMED], ids=[case[0] for case in BLAMED]
)
def test_the_file_that_is_blamed(earlier, later, expected):
    write(f"prepare: [digits]\n{earlier}", "a.yaml")
    write(later, "b.yaml")
    assert message_of("a.yaml", "b.yaml") == expected


def test_an_entry_on_the_command_line_is_blamed_on_it():
    write("prepare: [mnist]\ndatasets: {mnist: {title: T}}\n", "a.yaml")
    assert message_of("a.yaml", overrides={"datasets": {"mnist": {"samples": {"train": 0}}}}) == (
        f"--config: datasets.mnist.samples.train: found 0 (a whole number); allowed: {FROM_1}"
    )
