"""Files whose time is in the future stop a call before its first job."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.errors import DataError
from trainmark.plan import file_times
from trainmark.plan.file_times import MADE_OF, check_file_times, keep_digests, restore_order

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


# --- copies: what each job read and made, in the order of its chain ---------------------------------------------------

SOURCES, TRACE, CERTIFICATE = "results/sources.json", "results/traces/t.npz", "results/certificates/c.json"
CHAIN = [
    ([], [SOURCES]),
    ([SOURCES, OWN], [PREPARED]),
    ([PREPARED], [TRACE]),  # temporary
    ([TRACE], [CERTIFICATE]),
    ([PREPARED], [RECORD]),
]


@pytest.fixture
def chain():
    """Results of a finished call: what jobs read and made is kept, and a temporary file is gone."""
    for file in (SOURCES, CERTIFICATE, f"{PREPARED}/manifest.json"):
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(file)
    in_time([SOURCES, OWN, PREPARED, RECORD, CERTIFICATE])
    keep_digests(CHAIN)


def in_time(files):
    """Give files times in this order."""
    for seconds, file in enumerate(files, start=1_700_000_000):
        stamp = Path(file, ".snakemake_timestamp")
        os.utime(stamp if stamp.exists() else file, (seconds, seconds))


def newer_inputs():
    """Results with a newer input, as Snakemake compares them: for a temporary file that is gone, its inputs count."""
    chain = [*CHAIN, ([PREPARED], [CERTIFICATE])]
    edges = {(before, after) for read, made in chain for before in read for after in made}
    there = [edge for edge in edges if all(Path(file).exists() for file in edge)]
    return {after for before, after in there if file_times._time_of(before) > file_times._time_of(after)}


@pytest.mark.parametrize(
    "order", [[RECORD, CERTIFICATE, PREPARED, OWN, SOURCES], [PREPARED, SOURCES, RECORD, OWN, CERTIFICATE]]
)
def test_in_a_copy_nothing_is_older_than_what_it_was_made_of(chain, order):
    in_time(order)
    assert newer_inputs()
    restore_order()
    assert newer_inputs() == set()


@pytest.mark.parametrize(
    ("changed", "stale"),
    [
        (OWN, {PREPARED}),
        (f"{PREPARED}/manifest.json", {PREPARED, CERTIFICATE, RECORD}),
        (RECORD, {RECORD}),
        (MADE_OF, {PREPARED, CERTIFICATE, RECORD}),
    ],
)
def test_another_content_keeps_its_time(chain, changed, stale):
    Path(changed).write_text("another")
    in_time([RECORD, CERTIFICATE, PREPARED, OWN, SOURCES])
    restore_order()
    assert newer_inputs() == stale


def test_no_file_outside_the_results_gets_another_time(chain):
    """Results may come from somebody else."""
    made = json.loads(MADE_OF.read_text())
    MADE_OF.write_text(json.dumps([one | {"outputs": {OWN: "x", "results/../own/a list.txt": "x"}} for one in made]))
    in_time([OWN, SOURCES, PREPARED])
    before = Path(OWN).stat().st_mtime_ns
    restore_order()
    assert Path(OWN).stat().st_mtime_ns == before


def test_a_large_file_is_told_by_its_size_and_some_of_its_bytes(chain, monkeypatch):
    monkeypatch.setattr(file_times, "LARGE_BYTES", 3)
    monkeypatch.setattr(file_times, "SAMPLE_BYTES", 2)
    digest = file_times._digest(OWN)
    Path(OWN).write_text("12345")
    other = file_times._digest(OWN)
    Path(OWN).write_text("12346")
    assert len({digest, other, file_times._digest(OWN)}) == 3


def test_an_input_that_changed_beside_its_job_is_not_kept(chain):
    in_time([SOURCES, PREPARED, OWN, RECORD, CERTIFICATE])
    MADE_OF.unlink()
    keep_digests(CHAIN)
    assert PREPARED not in MADE_OF.read_text().partition('"outputs"')[0] and newer_inputs() == {PREPARED}
    restore_order()
    assert newer_inputs() == {PREPARED}
