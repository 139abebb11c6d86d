"""Encode reviews as token ids. Training and prediction share these rules for words, ids and length.

The rules are those of keras.datasets.imdb.load_data followed by keras.utils.pad_sequences, with Keras's default values.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from trainmark.errors import DataError, expect_damage

PADDING, START, UNKNOWN = 0, 1, 2
"""Ids that stand for no word: pad_sequences' `value`, and load_data's `start_char` and `oov_char`."""

RANK_OFFSET = 3
"""load_data's `index_from`: the word of rank r in the word index has id r + 3, so that id 3 stays unused."""

SEPARATORS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
"""The `filters` of Keras's text_to_word_sequence; apostrophes are part of a word."""

# Only A to Z become lower case: the word index holds "Ángela", and exactly the words that this table makes.
_TABLE = str.maketrans(ascii_uppercase + SEPARATORS, ascii_lowercase + " " * len(SEPARATORS))


def words(text: str) -> list[str]:
    """Split a raw review into words as the makers of imdb_word_index.json did; "<br />" gives the word "br".

    Source: Keras's text_to_word_sequence under Python 2, whose byte strings know no upper case beyond ASCII. Over the
    25,000 training reviews the words are the index's 88,584, and their counts fall as its ranks rise.
    """
    # At spaces alone: str.split() without one would also cut at U+0085, which is part of words in the index.
    return [word for word in text.translate(_TABLE).split(" ") if word]


def encode_ranks(ranks: Sequence[int], vocabulary_size: int, length: int) -> np.ndarray:
    """Token ids, int32 (length,), of a review given as the ranks of its words in the word index, 1 for the commonest.

    START comes first; ids of `vocabulary_size` and above become UNKNOWN; `pad` brings the result to `length`.
    """
    ids = np.asarray(ranks, np.int64) + RANK_OFFSET
    ids[ids >= vocabulary_size] = UNKNOWN
    return pad(np.concatenate([[START], ids]), length)


def pad(ids: np.ndarray, length: int) -> np.ndarray:
    """The last `length` (at least 1) of the ids, int32 (length,), with PADDING in front where there are fewer.

    Source: keras.utils.pad_sequences with its defaults, padding="pre" and truncating="pre".
    """
    padded = np.full(length, PADDING, np.int32)
    last = ids[-length:]
    padded[length - len(last) :] = last
    return padded


@dataclass(frozen=True)
class Vocabulary:
    """A word index, and the number of ids in use: 0 to `size` - 1, of which the first four stand for no word."""

    word_ranks: Mapping[str, int]
    size: int

    def encode(self, text: str, length: int) -> np.ndarray:
        """Token ids of a raw review, int32 (length,). A word outside the index becomes UNKNOWN; it is not skipped."""
        # `size` stands for the rank of an unknown word: with the offset it is always beyond the vocabulary.
        ranks = [self.word_ranks.get(word, self.size) for word in words(text)]
        return encode_ranks(ranks, self.size, length)

    def in_use(self) -> dict[str, int]:
        """The words that have their own id, with their ranks; all others are UNKNOWN."""
        return {word: rank for word, rank in self.word_ranks.items() if rank + RANK_OFFSET < self.size}


def read_word_index(path: Path) -> dict[str, int]:
    """Ranks by word, from a file like Keras's imdb_word_index.json. Raises DataError if it is not such a file."""
    try:
        word_ranks: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
        if sorted(word_ranks.values()) == list(range(1, len(word_ranks) + 1)):
            return word_ranks
    except (OSError, ValueError, TypeError, AttributeError) as error:
        expect_damage(error, path)
        raise DataError(f"{path} is not a word index ({error}); delete it and download it again") from error
    raise DataError(f"{path} is not a word index: it must give n words the ranks 1 to n, each rank once")
