"""Token ids: Keras's rule, worked out by hand and against Keras's own words, for training and prediction alike."""

import messages
import numpy as np
import pytest

from trainmark.datasets.tokens import Vocabulary, encode_ranks, read_word_index, words

WORD_RANKS = {"the": 1, "and": 2, "a": 3, "film": 4, "br": 5, "it's": 6, "bad": 7, "the\x85": 8}


def message_of(path) -> str:
    return messages.message_of(read_word_index, path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("  \t\n ... ", []),
        ("bad.<br /><br />It's", ["bad", "br", "br", "it's"]),
        ("'quoted' o'clock", ["'quoted'", "o'clock"]),
        ("a\tb\nc\rd", ["a", "b", "c\rd"]),
        ("10/10 well-made_film", ["10", "10", "well", "made", "film"]),
        ("most\x85and a\xa0b\u2003c", ["most\x85and", "a\xa0b\u2003c"]),
        ("CLICHÉ Ángela Straße", ["clichÉ", "Ángela", "straße"]),
        ("\u2018so\u2019 \U0001f600", ["\u2018so\u2019", "\U0001f600"]),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


def test_the_words_are_those_of_keras():
    """Keras's text_to_word_sequence, as its documentation gives it; for ASCII text, Python 2 and 3 agree."""
    filters = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
    table = str.maketrans({character: " " for character in filters})
    generator = np.random.default_rng(0)
    texts = ["".join(f"x{chr(code)}" for code in range(128))]
    texts += [bytes(generator.integers(0, 128, 300, dtype=np.uint8)).decode("ascii") for _ in range(50)]
    for text in texts:
        assert words(text) == [word for word in text.lower().translate(table).split(" ") if word]


def test_a_review_by_hand():
    vocabulary = Vocabulary(WORD_RANKS, 10)
    # start, the 1+3, film 4+3, nobody: not in the index and never skipped, it's 6+3, bad 7+3 is not below 10
    encoded = vocabulary.encode("The film: nobody; it's BAD!", 8)
    assert encoded.tolist() == [0, 0, 1, 4, 7, 2, 9, 2] and encoded.dtype == np.int32


@pytest.mark.parametrize(
    ("text", "ranks", "length", "expected"),
    [
        ("the and a", [1, 2, 3], 1, [6]), ("the and a", [1, 2, 3], 3, [4, 5, 6]), ("", [], 3, [0, 0, 1]),
        ("the and a", [1, 2, 3], 4, [1, 4, 5, 6]), ("the and a", [1, 2, 3], 6, [0, 0, 1, 4, 5, 6]),
    ],
)  # fmt: skip
def test_the_end_is_kept_and_the_front_padded(text, ranks, length, expected):
    """The start token is the first to go; the original prediction kept the beginning instead."""
    assert Vocabulary(WORD_RANKS, 100).encode(text, length).tolist() == expected
    assert encode_ranks(ranks, 100, length).tolist() == expected


@pytest.mark.parametrize(("size", "expected"), [(4, 2), (6, 2), (7, 2), (8, 7), (5000, 7)])
def test_an_id_counts_against_the_vocabulary_with_its_offset(size, expected):
    """ "film", of rank 4, has id 7: it needs a vocabulary of 8."""
    assert Vocabulary(WORD_RANKS, size).encode("film", 1).tolist() == [expected]
    assert encode_ranks([4], size, 1).tolist() == [expected]


def test_ids_are_those_of_keras():
    """load_data's and pad_sequences' own lines for one review."""
    generator = np.random.default_rng(2)
    for words_held in (0, 1, 399, 400, 401, 2000):
        ranks = generator.integers(1, 88_585, words_held).tolist()
        ids = [1] + [rank + 3 for rank in ranks]
        ids = [i if i < 5000 else 2 for i in ids][-400:]
        assert encode_ranks(ranks, 5000, 400).tolist() == [0] * (400 - len(ids)) + ids


@pytest.mark.parametrize(
    "content",
    [
        b"[]", b"null", b'{"the": 0}', b'{"the": 2}', b'{"the": 1, "a": 1}', b'{"the": "1"}', b'{"the": [1]}',
        b"", b'{"the": 1, "a"', b'{"\xff": 1}',
    ],
)  # fmt: skip
def test_no_word_index(tmp_path, content):
    path = tmp_path / "index.json"
    path.write_bytes(content)
    assert message_of(path).startswith(f"{path} is not a word index")
