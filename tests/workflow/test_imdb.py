"""Raw reviews to a trained imdb-cnn through the whole workflow, and its run asked for the class of other reviews."""

import json
import os
import re
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from subprocess import PIPE

import numpy as np
import pytest
from harness import predict, record_file, snakemake, write_config
from mirrors import reviews_on_mirror
from report_figures import check_figures

from trainmark.machine.locks import LOCK_FOLDER_VARIABLE, hold_device
from trainmark.records.record import read_record
from trainmark.records.resolved import input_of

pytestmark = pytest.mark.faults  # whole workflows: minutes that make test has not

REVIEWS = "The film was bad, bad, bad!\n\nThe film was great; great.\n"


def config(folder):
    """Two runs on a few reviews, of which one keeps its weights."""
    of_texts = {"recipes": ["imdb-cnn"], "datasets": ["texts"], "frameworks": ["chainer"], "devices": ["cpu"]}
    return {
        "mirror": str(folder / "mirror"),
        "offline": True,
        "datasets": {
            "texts": reviews_on_mirror(
                folder, "The film was {0} {0} {0}<br />", 8, sequence_length=400, vocabulary_size=100
            ),
        },
        "experiments": {
            "kept": of_texts | {"epochs": [12], "repeats": 1, "batch_size": 8},
            "forgotten": of_texts | {"epochs": [1], "repeats": 1, "batch_size": 8, "keep_weights": False},
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of the finished workflow."""
    folder = tmp_path_factory.mktemp("imdb")
    process = snakemake(folder, "--cores", "2", "--configfile", write_config(folder, config(folder)))
    assert process.returncode == 0, process.printed[-5000:]
    return folder


def run_folder(folder, experiment="kept", epochs=12):
    return record_file(folder, f"{experiment}/imdb-cnn/texts/chainer-cpu/epochs-{epochs}/repeat-1").parent


def test_the_network_learns_the_reviews_and_scores_one_of_each_class(finished):
    record = read_record(run_folder(finished) / "record.json")
    assert input_of(record) is None
    assert record["network"]["parameters"] == 350_751
    assert record["result"]["test_accuracy"] == 1
    negative, positive = record["scored_texts"]
    assert (negative["class_name"], negative["index"]) == ("negative", 0) and negative["probability"] < 0.5
    assert (positive["class_name"], positive["index"]) == ("positive", 8) and positive["probability"] > 0.5


def test_the_report_shows_the_scores(finished):
    page = (finished / "results" / "report" / "index.html").read_text()
    order = json.loads((finished / "results" / "plan.json").read_text())["order"]
    records = {str(i): read_record(record_file(finished, run_id)) for i, run_id in enumerate(order, 1)}
    shown = check_figures(page, records, certificates={})
    assert {cell["data-field"] for cell in shown} >= {"scored_texts.test.0", "scored_texts.test.8"}
    assert page.count("<h3>Sample reviews</h3>") == 2
    assert "16 test\ntexts of 400 token ids in 2 classes" in page


@pytest.mark.parametrize("way", ["file", "-"])
def test_predict_answers_every_line_and_says_nothing_else(finished, tmp_path, way):
    (tmp_path / "reviews.txt").write_text(REVIEWS)
    argument = tmp_path / "reviews.txt" if way == "file" else "-"
    done = predict(run_folder(finished), argument, input=None if way == "file" else REVIEWS)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"negative\t\d\.\d{4}\n(negative|positive)\t\d\.\d{4}\npositive\t\d\.\d{4}\n", done.stdout)


def test_predict_gives_the_probabilities_of_the_training(finished):
    """The review of the record's scored texts gets the probability that the last evaluation gave it."""
    record = read_record(run_folder(finished) / "record.json")
    done = predict(
        run_folder(finished) / "record.json",
        input="The film was bad bad bad<br />\nThe film was great great great<br />\n",
    )
    probabilities = [float(line.split("\t")[1]) for line in done.stdout.splitlines()]
    negative, positive = (text["probability"] for text in record["scored_texts"])
    np.testing.assert_allclose(probabilities, [1 - negative, positive], atol=6e-5)


def test_predict_ends_quietly_where_its_reader_has_gone(finished, tmp_path):
    (tmp_path / "many.txt").write_text("great\n" * 20_000)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as gone:
        done = predict(run_folder(finished), tmp_path / "many.txt", capture_output=False, stdout=gone, stderr=PIPE)
    assert (done.returncode, done.stderr) == (141, "")


def test_predict_says_what_is_missing_while_a_run_holds_every_cpu(finished, tmp_path, monkeypatch):
    """It waits where nothing is missing, says that, and answers once they are free."""
    refused = {
        "RecordError: ": [tmp_path / "nowhere"],
        "has no trained weights": [run_folder(finished, "forgotten", 1)],
        "missing.txt can't be read": [run_folder(finished), tmp_path / "missing.txt"],
    }
    monkeypatch.setenv(LOCK_FOLDER_VARIABLE, os.path.join(tempfile.gettempdir(), "trainmark-locks-of-predict"))
    said = tmp_path / "said"
    with ThreadPoolExecutor() as threads, said.open("w") as stderr:
        with hold_device("cpu", os.cpu_count()):  # in the folder that harness.predict names
            for words, arguments in refused.items():
                done = predict(*arguments, input="good\n", timeout=60)
                assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
                assert words in done.stderr
            waiting = threads.submit(
                predict,
                run_folder(finished),
                input="good\n",
                capture_output=False,
                stdout=PIPE,
                stderr=stderr,
                timeout=60,
            )
            while "predict: waiting for 2 CPUs, held by other jobs" not in said.read_text():
                assert not waiting.done()
                time.sleep(0.05)
        assert waiting.result().stdout.count("\n") == 1
