"""Files whose time is in the future stop a call before its first job."""

import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.errors import DataError
from trainmark.plan.file_times import check_file_times

PREPARED, RECORD, OWN = "results/datasets/d/prepared", "results/runs/r/record.json", "own/a list.txt"
JOBS = [
    SimpleNamespace(input=[PREPARED, "results/not-there"], output=[RECORD]),
    SimpleNamespace(input=[OWN, RECORD], output=["results/tables/runs.parquet"]),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for file in (f"{PREPARED}/.snakemake_timestamp", RECORD, OWN):
        Path(file).parent.mkdir(parents=True)
        Path(file).touch()


def ahead(file, seconds=7200):
    os.utime(file, (time.time() + seconds,) * 2)


@pytest.mark.parametrize(
    ("late", "file", "places"),
    [
        ([f"{PREPARED}/.snakemake_timestamp"], f"{PREPARED} is", "results"),
        ([OWN], f"{OWN} is", "own"),
        ([OWN, f"{PREPARED}/.snakemake_timestamp"], f"{OWN} (and 1 more) is", "own results"),
    ],
)
def test_a_time_in_the_future_is_refused_with_what_to_do(late, file, places):
    for path in late:
        ahead(path)
    with pytest.raises(DataError, match="in the future") as refused:
        check_file_times(JOBS)
    sentence = str(refused.value)
    assert f"the time of {file} 2 h in the future" in sentence
    assert os.system(sentence[sentence.index(f"find {places} -newermt") :]) == 0
    check_file_times(JOBS)


def test_clocks_may_differ_and_what_this_call_makes_gets_a_new_time():
    ahead(OWN, seconds=20)
    ahead(RECORD)
    check_file_times(JOBS)
