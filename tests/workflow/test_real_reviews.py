"""The real reviews through the whole workflow: raw text to a trained imdb-cnn in every framework, and `predict`.

Half an hour on two cores, more where other work is done beside. `pytest -s -m real_data
tests/workflow/test_real_reviews.py` prints the table behind docs/measurements.md.
"""

import json
import re
import tarfile

import pytest
from harness import FRAMEWORKS, REPOSITORY, experiment_of, finish, predict, record_file, write_config

from trainmark.records.record import read_record

MIRROR = REPOSITORY.parent / "shared" / "data"
FILES = {
    "aclImdb_labelled_50000.tar.xz": "5eb9f3c18c8474e3ad53e90610a01d1373e7105375e895c37d8e41404eab7291",
    "imdb_word_index.json": "027313fe9a320280f3bf0fac5baf58c4a683cf39a7ed9c3d3d3912bde4284cf6",
}
"""The 50,000 labelled reviews, packed anew, and their word index, by SHA-256."""

CONFIG = {
    "mirror": str(MIRROR),
    "offline": True,
    "datasets": {"imdb": {"files": [{"name": name, "sha256": sha256, "urls": []} for name, sha256 in FILES.items()]}},
    "experiments": {"imdb": experiment_of(recipes=["imdb-cnn"], datasets=["imdb"], frameworks=FRAMEWORKS, epochs=[2])},
}

LEAST_ACCURACY = 0.87
"""Keras's example promises .89 after 2 epochs."""


def raw_test_reviews():
    """(texts, their class names) of the 25,000 test reviews, straight from the archive."""
    texts, classes = [], []
    with tarfile.open(MIRROR / "imdb" / "aclImdb_labelled_50000.tar.xz") as archive:
        for member in archive:
            parts = member.name.split("/")
            if len(parts) == 4 and parts[1] == "test":
                texts.append(archive.extractfile(member).read().decode())
                classes.append({"neg": "negative", "pos": "positive"}[parts[2]])
    return texts, classes


@pytest.mark.real_data
@pytest.mark.timeout(2 * 3600)
def test_imdb_cnn_learns_the_real_reviews_in_every_framework(tmp_path):
    if not (MIRROR / "imdb").is_dir():
        pytest.skip(f"there are no real reviews at {MIRROR}/imdb")
    finish(tmp_path, "--cores", "2", "--configfile", write_config(tmp_path, CONFIG))
    print((tmp_path / "results" / "tables" / "summary.txt").read_text())
    for framework in FRAMEWORKS:
        file = record_file(tmp_path, f"imdb/imdb-cnn/imdb/{framework}-cpu/epochs-2/repeat-1")
        record = read_record(file)
        print(framework, json.dumps(record["result"]), json.dumps(record["scored_texts"]))
        assert record["network"]["parameters"] == 350_751
        assert record["result"]["test_accuracy"] >= LEAST_ACCURACY
        negative, positive = record["scored_texts"]
        assert (negative["index"], positive["index"]) == (0, 12_500)
        reviews = "A dull, badly acted waste of time. Awful.\nA wonderful, moving film with a great cast. Superb!\n"
        answers = predict(file, input=reviews).stdout.splitlines()
        print(framework, answers)
        assert [answer.split("\t")[0] for answer in answers] == ["negative", "positive"]
        assert all(re.fullmatch(r"\w+\t[01]\.\d{4}", answer) for answer in answers)
    texts, classes = raw_test_reviews()
    answers = predict(file, input="".join(f"{text}\n" for text in texts)).stdout.splitlines()
    assert len(answers) == len(texts) == 25_000
    right = sum(answer.split("\t")[0] == name for answer, name in zip(answers, classes, strict=True))
    assert right / len(texts) == record["result"]["test_accuracy"], "the same words, ids and length as in training"
