"""The CPUs of a process, by core, within the limits of a scheduler or a container."""

import os

import pytest

from trainmark.machine import cpus


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A function that fakes a machine, with the kernel's lists of siblings by CPU, and the allowed CPUs."""
    monkeypatch.setattr(cpus, "SIBLINGS", str(tmp_path / "cpu{cpu}"))
    monkeypatch.setattr(cpus, "CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(cpus, "CGROUP_ROOT", tmp_path / "groups")

    def play(siblings: dict[int, str], allowed=None) -> None:
        for cpu, text in siblings.items():
            (tmp_path / f"cpu{cpu}").write_text(f"{text}\n")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(siblings if allowed is None else allowed))

    return play


@pytest.fixture
def group(tmp_path, machine):
    """A function that writes /proc/self/cgroup and files of control groups, and returns the quota read from them."""

    def write(membership: str, files: dict[str, str]) -> float | None:
        (tmp_path / "cgroup").write_text(membership)
        for name, text in files.items():
            file = tmp_path / "groups" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        return cpus.cpu_quota()

    return write


TWO_BY_TWO = {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}


@pytest.mark.parametrize(
    ("siblings", "allowed", "cores"),
    [
        (TWO_BY_TWO, None, {0: [0, 2], 1: [1, 3]}),
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, None, {0: [0, 1], 2: [2, 3]}),
        ({}, [1, 0], {0: [0], 1: [1]}),  # no files of siblings
        (TWO_BY_TWO, [1, 3], {1: [1, 3]}),
        (TWO_BY_TWO, [2], {0: [2]}),  # another job may have CPU 0: both name the same core
    ],
)
def test_the_allowed_cpus_are_grouped_by_core(machine, siblings, allowed, cores):
    machine(siblings, allowed)
    assert cpus.allowed_cores() == cores


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/job\n", {"job/cpu.max": "max 100000"}, None),
        ("0::/job\n", {"job/cpu.max": "400000 50000"}, 8.0),
        ("", {}, None),
        ("0::/system/docker-1a\n", {"cpu.max": "300000 100000"}, 3.0),  # the host's path, in a container
        (
            "0::/pod/one\n",
            {"pod/cpu.max": "200000 100000", "pod/one/cpu.max": "max 100000", "cpu.max": "800000 100000"},
            2.0,
        ),
        ("3:cpuset:/other\n0::/job\n", {"other/cpu.max": "100000 100000"}, None),
    ],
)
def test_the_smallest_quota_of_the_own_groups_applies(group, membership, files, quota):
    assert group(membership, files) == quota


@pytest.mark.parametrize(
    ("quota", "cores"),
    [
        ("50000 100000", {0: [0]}),
        ("300000 100000", {0: [0, 2], 1: [1]}),
        ("400000 100000", {0: [0, 2], 1: [1, 3]}),
    ],
)
def test_a_quota_limits_the_number_of_cpus_rounded_down(machine, group, quota, cores):
    machine(TWO_BY_TWO)
    group("0::/\n", {"cpu.max": quota})
    assert cpus.allowed_cores() == cores


def test_cpus_are_used_one_of_each_core_first(monkeypatch):
    """Two cores of two CPUs each, of which three may be used, and two of these are held."""
    monkeypatch.setattr(cpus, "allowed_cores", lambda: {0: [0, 4], 1: [1, 5]})
    assert cpus.in_order_of_use([0, 1, 4, 5]) == [0, 1, 4, 5]
    assert cpus.in_order_of_use([4, 5, 0]) == [0, 5, 4]
