"""The CPUs of a process, by core, within the limits of a scheduler or a container."""

import os
import subprocess

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


X86 = "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC 7763 64-Core Processor"
NO_NAME = X86.removesuffix("AMD EPYC 7763 64-Core Processor")
ARM = "Features\t: fp asimd\nCPU implementer\t: {}\nCPU architecture: 8\nCPU variant\t: {}\nCPU part\t: {}"
ARM += "\nCPU revision\t: {}"
PI_32 = (
    "model name\t: ARMv7 Processor rev 3 (v7l)\n" + ARM.format("0x41", "0x0", "0xd08", 3) + "\n\nHardware\t: BCM2711"
)
POWER = "cpu\t\t: {}, altivec supported\nclock\t\t: 3800.0MHz\nrevision\t: 2.{} (pvr 004e 120{})"
POWER_END = "\n\ntimebase\t: 512000000\nplatform\t: PowerNV\nmodel\t\t: 8335-GTH\nmachine\t\t: PowerNV 8335-GTH"
RISCV = "hart\t\t: 1\nisa\t\t: rv64imafdc\nmmu\t\t: sv39"
S390 = "vendor_id       : IBM/S390\n# processors    : 1\nfeatures\t: esan3 zarch vx\n"
S390_OLD = S390 + "processor 0: version = FF,  identification = 233EF7,  machine = {}"
S390_NEW = S390 + "\ncpu number      : 0\nversion         : 00\nidentification  : 1A33E8\nmachine         : 2964"


@pytest.mark.parametrize(
    ("cores", "name"),
    [
        ([X86, X86], "AMD EPYC 7763 64-Core Processor"),
        ([NO_NAME + "unknown"], "unknown (vendor_id AuthenticAMD, cpu family 25, model 1)"),
        ([NO_NAME], "(vendor_id AuthenticAMD, cpu family 25, model 1)"),
        ([NO_NAME + "Intel(R) Xeon(R) CPU @ 2.20GHz\nstepping\t: 7"],
         "Intel(R) Xeon(R) CPU @ 2.20GHz (vendor_id AuthenticAMD, cpu family 25, model 1, stepping 7)"),
        ([ARM.format("0x41", "0x3", "0xd0c", 1)] * 2, "Neoverse-N1 r3p1"),  # Graviton2, Ampere Altra
        ([ARM.format("0x41", "0x1", "0xd40", 1)], "Neoverse-V1 r1p1"),  # Graviton3
        ([ARM.format("0x70", "0x1", "0x662", 2)], "ARM core 0x70 0x662 r1p2"),
        ([ARM.format("0x61", "0x0", "0x000", 0)], "ARM core 0x61 0x000 r0p0"),  # a virtual machine on a Mac
        ([ARM.format("0x46", "0x1", "0x001", 0)], "A64FX r1p0"),
        ([ARM.format("0x41", "0x2", "0xd05", 0)] * 2 + [ARM.format("0x41", "0x4", "0xd0b", 0)],
         "Cortex-A55 r2p0 + Cortex-A76 r4p0"),  # big.LITTLE
        ([PI_32], "Cortex-A72 r0p3"),
        ([POWER.format("POWER9", 3, 3), POWER.format("POWER9", 3, 3) + POWER_END], "POWER9 2.3 (pvr 004e 1203)"),
        ([POWER.format("POWER9 (architected)", 2, 2)], "POWER9 (architected) 2.2 (pvr 004e 1202)"),
        ([f"{RISCV}\nuarch\t\t: sifive,u74-mc\nmvendorid\t: 0x489"], "sifive,u74-mc"),
        ([f"{RISCV}\nmvendorid\t: 0x5b7\nmarchid\t\t: 0x0\nmimpid\t\t: 0x1"], "rv64imafdc 0x5b7 0x0 0x1"),
        ([S390_OLD.format(3906)], "IBM/S390 machine 3906"),
        ([S390_OLD.format(8561)], "IBM/S390 machine 8561"),
        ([S390_NEW], "IBM/S390 machine 2964"),
        (["system type\t: x\nCPU Family\t: Loongson-64bit\nModel Name\t: Loongson-3A5000"], "Loongson-3A5000"),
        (["system type\t: x\ncpu model\t\t: ICT Loongson-3 V0.4"], "ICT Loongson-3 V0.4"),
        ([], "aarch64"),
    ],
)  # fmt: skip
def test_processors_that_differ_have_different_names(tmp_path, monkeypatch, cores, name):
    """The texts are shortened ones of such machines."""
    text = "\n\n".join(f"processor\t: {number}\n{core}" for number, core in enumerate(cores))
    (tmp_path / "cpuinfo").write_text(f"{text}\n")
    monkeypatch.setattr(cpus, "CPU_INFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(cpus.platform, "processor", str)
    monkeypatch.setattr(cpus.platform, "machine", lambda: "aarch64")
    assert cpus.cpu_model() == name
    of_this = cpus.instruction_set()
    monkeypatch.setattr(cpus, "CPU_INFO", tmp_path / "none")
    assert (of_this == cpus.instruction_set()) == (name == "aarch64"), "code compiled for it is not for all of its kind"


def test_the_processor_of_a_mac(monkeypatch):
    monkeypatch.setattr(cpus.sys, "platform", "darwin")
    monkeypatch.setattr(cpus, "run_program", lambda words: subprocess.CompletedProcess(words, 0, "Apple M2 Pro\n", ""))
    assert cpus.cpu_model() == "Apple M2 Pro"
