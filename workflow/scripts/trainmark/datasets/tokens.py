"""Reviews as token ids: one rule for words, ids and length, the same in training and in prediction.

The rule is that of keras.datasets.imdb.load_data followed by keras.utils.pad_sequences, with Keras's default values.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase

import numpy as np

from trainmark.errors import DataError

PADDING, START, UNKNOWN = 0, 1, 2
"""Ids that no word has: load_data's `start_char` and `oov_char`, and pad_sequences' `value`."""

RANK_OFFSET = 3
"""load_data's `index_from`: the word of rank r in the word index has id r + 3, so that id 3 stays unused."""

SEPARATORS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
"""The `filters` of Keras's text_to_word_sequence; apostrophes are part of a word."""

# Only A to Z become lower case: the word index holds "Ángela", and exactly the words that this table makes.
_TABLE = str.maketrans(ascii_uppercase + SEPARATORS, ascii_lowercase + " " * len(SEPARATORS))


def words(text: str) -> list[str]:
    """The words of a raw review as the makers of imdb_word_index.json cut them; "<br />" gives the word "br".

    Source: Keras's text_to_word_sequence under Python 2, whose byte strings know no upper case beyond ASCII. Over the
    25,000 training reviews the words are the index's 88,584, and their counts fall as its ranks rise.
    """
    # At spaces alone: str.split() without one would also cut at U+0085, which is part of words in the index.
    return [word for word in text.translate(_TABLE).split(" ") if word]


def encode_ranks(ranks: Sequence[int], vocabulary_size: int, length: int) -> np.ndarray:
    """Token ids, int32 (length,), of a review given as the ranks of its words in the word index, 1 for the commonest.

    START comes first; an id that is not below `vocabulary_size` becomes UNKNOWN; `pad` does the rest.
    """
    ids = np.asarray(ranks, np.int64) + RANK_OFFSET
    ids[ids >= vocabulary_size] = UNKNOWN
    return pad(np.concatenate([[START], ids]), length)


def pad(ids: np.ndarray, length: int) -> np.ndarray:
    """The last `length` (at least 1) of the ids, int32 (length,), with PADDING in front where there are fewer.

    Source: keras.utils.pad_sequences with its defaults, padding="pre" and truncating="pre".
    """
    padded = np.full(length, PADDING, np.int32)
    kept = ids[-length:]
    padded[length - len(kept) :] = kept
    return padded


@dataclass(frozen=True)
class Vocabulary:
    """A word index and how many ids are in use: 0 to `size` - 1, the first four of them for no word."""

    word_ranks: Mapping[str, int]
    size: int

    def encode(self, text: str, length: int) -> np.ndarray:
        """Token ids of a raw review, int32 (length,). A word that the index does not know is UNKNOWN, not skipped."""
        # `size` stands for the rank of an unknown word: with the offset it is always beyond the vocabulary.
        ranks = [self.word_ranks.get(word, self.size) for word in words(text)]
        return encode_ranks(ranks, self.size, length)

    def in_use(self) -> dict[str, int]:
        """The words that have an id of their own, with their ranks: the others are all UNKNOWN."""
        return {word: rank for word, rank in self.word_ranks.items() if rank + RANK_OFFSET < self.size}


def read_word_index(path: Path) -> dict[str, int]:
    """The rank of each word of a file like Keras's imdb_word_index.json. Raises DataError where it is none."""
    try:
        word_ranks: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a JSON file ({error}); delete it and download it again") from error
    if not _is_word_index(word_ranks):
        raise DataError(
            f"{path} is not a word index; it must be a JSON object that gives n words the ranks 1 to n, each rank once"
        )
    return word_ranks


def _is_word_index(content: object) -> bool:
    if not isinstance(content, dict) or not content or not all(type(rank) is int for rank in content.values()):
        return False
    return sorted(content.values()) == list(range(1, len(content) + 1))
