"""A peak is measured once under the same conditions, and shared by the runs that have them."""

import json

import pytest

from trainmark.machine.ranks import ALONE, Ranks
from trainmark.training import peak as peak_module
from trainmark.training.peak import shared_peak

CONDITIONS = {"host": "node1", "cpus": [0], "gpu": None, "threads": 1, "versions": {"jax": "1"}}


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """A function that returns the peak under conditions. Each measurement gives 1 more. `disturbed` is in its hands."""
    monkeypatch.setattr(peak_module, "disturbance", lambda stretches, cpus: {"causes": []} if take.disturbed else None)

    def measure():
        take.count += 1
        return {"matrix_flops_per_second": take.count}

    def take(ranks=ALONE, **changes):
        return shared_peak(tmp_path / "peaks", CONDITIONS | changes, measure, ranks)

    take.count, take.disturbed, take.folder = 0, False, tmp_path / "peaks"
    return take


def test_runs_share_a_peak_under_the_same_conditions(measured):
    first = measured()
    assert measured() == first
    for changes in ({"cpus": [1]}, {"threads": 2}, {"host": "node2"}, {"versions": {"jax": "2"}}, {"gpu": "GPU-1"}):
        assert measured(**changes)["matrix_flops_per_second"] == measured.count
    assert measured.count == 6
    assert measured() == first


def test_a_peak_that_other_work_disturbed_is_measured_again(measured):
    measured.disturbed = True
    assert measured()["matrix_flops_per_second"] == 1
    measured.disturbed = False
    assert [measured()["matrix_flops_per_second"] for _ in range(2)] == [2, 2]


class OfThree(Ranks):
    """The first of three ranks, of which the others have the same conditions and measure the same."""

    size = 3

    def all_values(self, value):
        return [value] * 3


def test_the_peak_of_several_ranks_is_the_sum_of_theirs_and_no_others(measured):
    together = measured(ranks=OfThree())
    assert together["matrix_flops_per_second"] == 3
    assert measured(ranks=OfThree()) == together
    assert measured()["matrix_flops_per_second"] == 2


@pytest.mark.parametrize("edit", ["edited", "cut off", "no object"])
def test_a_file_that_was_changed_is_replaced(measured, edit):
    measured()
    (file,) = measured.folder.iterdir()
    text = file.read_text()
    file.write_text({"edited": text.replace(": 1,", ": 9,"), "cut off": text[:20], "no object": "[]"}[edit])
    assert measured()["matrix_flops_per_second"] == 2
    assert json.loads(file.read_text())["peak"]["matrix_flops_per_second"] == 2
