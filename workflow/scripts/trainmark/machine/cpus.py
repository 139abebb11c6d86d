"""The CPUs that this process may use, grouped by core. Uses only the standard library."""

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from trainmark.machine.programs import run_program

SIBLINGS = "/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
"""File that lists the CPUs of a CPU's core, as "0,64" or "0-1"."""

CPU_INFO = Path("/proc/cpuinfo")

ARM_CORES = {
    "41d03": "Cortex-A53",
    "41d05": "Cortex-A55",
    "41d08": "Cortex-A72",
    "41d0b": "Cortex-A76",
    "41d0c": "Neoverse-N1",
    "41d40": "Neoverse-V1",
    "41d49": "Neoverse-N2",
    "41d4f": "Neoverse-V2",
    "41d84": "Neoverse-V3",
    "430af": "ThunderX2",
    "46001": "A64FX",
    "48d01": "TaiShan-v110",
    "c0ac3": "AmpereOne",
}
"""Names of ARM cores, by implementer and part. Of others the numbers are the name."""

CGROUP = Path("/proc/self/cgroup")
CGROUP_ROOT = Path("/sys/fs/cgroup")


def allowed_cpus() -> list[int]:
    """Return the numbers of the CPUs that this process may run on, as set by a scheduler or a container.

    On macOS, which can't bind a process to CPUs, all of the machine's.
    """
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [*range(os.cpu_count() or 1)]


def bind(cpus: Iterable[int]) -> None:
    """Let this process run on these CPUs alone. On macOS: let JAX start as many threads, and the system choose."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)
    else:
        os.environ["PJRT_NPROC"] = str(len([*cpus]))


def has_avx512() -> bool:
    """Return whether the CPU has the AVX-512 instructions of Intel's Skylake-X; False where Linux does not tell."""
    flags = re.search(r"^flags\s*:(.*)", read_kernel_file(CPU_INFO), re.MULTILINE)
    return {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"} <= set(flags[1].split() if flags else ())


def instruction_set() -> str:
    """Return a digest of the CPUs' models and instructions: machine code for one CPU may be wrong on another."""
    keys = r"vendor_id|cpu family|model|stepping|flags|[Ff]eatures|CPU \w+|(?:hart )?isa"
    lines = re.findall(rf"^(?:{keys})\s*:.*", read_kernel_file(CPU_INFO), re.MULTILINE)
    return hashlib.sha256("\n".join([platform.machine(), cpu_model(), *sorted(set(lines))]).encode()).hexdigest()[:16]


def cpu_model() -> str:
    """Return the name of the processor, made of what the kernel tells; of several kinds of cores, the name of each.

    The name of the architecture if it tells nothing.
    """
    text = read_kernel_file(CPU_INFO)
    cores = [dict(re.findall(r"^(.*?)[ \t]*:[ \t]*(.*)", core, re.MULTILINE)) for core in text.split("\n\n")]
    names = dict.fromkeys(filter(None, map(_name_of_core, cores)))
    if sys.platform == "darwin":
        names = {run_program(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]).stdout.strip(): None}
    if mainframe := re.search(r"^vendor_id.*(IBM/S390)[\s\S]*?machine\s*[=:]\s*(\w+)", text, re.MULTILINE):
        names = {f"{mainframe[1]} machine {mainframe[2]}": None}
    return " + ".join(names) or platform.processor() or platform.machine()


def _name_of_core(core: Mapping[str, str]) -> str | None:
    """Return the name of a core from its fields in CPU_INFO; None if they tell nothing."""
    if part := core.get("CPU part"):  # ARM's "model name", where there is one, is that of the architecture
        maker = core.get("CPU implementer", "0x")
        name = ARM_CORES.get(maker[2:] + part[2:], f"ARM core {maker} {part}")
        return f"{name} r{int(core.get('CPU variant', '0'), 16)}p{core.get('CPU revision', '0')}"
    if power := core.get("cpu"):  # SPARC, too
        return f"{power.partition(',')[0]} {core.get('revision', '')}".strip()
    names = ("model name", "Model Name", "cpu model", "uarch")  # x86; LoongArch, MIPS, RISC-V
    of_riscv = " ".join(core[key] for key in ("isa", "mvendorid", "marchid", "mimpid") if key in core)
    name = next(filter(None, map(core.get, names)), of_riscv)
    if "cpu family" in core and not re.search(r"\d", name.partition("@")[0]):  # clouds name several models alike
        of_x86 = ("vendor_id", "cpu family", "model", "stepping")
        name += f" ({', '.join(f'{key} {core[key]}' for key in of_x86 if key in core)})"
    return name.strip()


def cpu_quota() -> float | None:
    """Return the CPU quota of this process's control groups, in CPUs, or None if there is no quota.

    Control groups are nested; the smallest quota of a group and all groups above it applies.
    """
    limits = (read_kernel_file(folder / "cpu.max").split() for folder in control_groups())  # quota, period; or "max"
    return min((int(limit[0]) / int(limit[1]) for limit in limits if limit and limit[0] != "max"), default=None)


def control_groups() -> list[Path]:
    """Return the folders of this process's control group (cgroup version 2), and of the groups above it.

    In a container the path may be the host's. Then only the topmost folder exists, and it is the container's own.
    """
    membership = re.search(r"^0::(.*)", read_kernel_file(CGROUP), re.MULTILINE)
    names = Path(membership[1]).parts[1:] if membership else ()
    return [CGROUP_ROOT.joinpath(*names[:depth]) for depth in range(len(names) + 1)]


def throttle_files() -> list[Path]:
    """Return the files of this process's control groups that count for how long a CPU quota throttled them."""
    return [file for folder in control_groups() if (file := folder / "cpu.stat").exists()]


def throttled_seconds(files: Iterable[Path]) -> float | None:
    """Return the throttled seconds counted in these files, or None if none counts them."""
    matches = [re.search(r"^throttled_usec (\d+)", read_kernel_file(file), re.MULTILINE) for file in files]
    counts = [int(match[1]) / 1e6 for match in matches if match]
    return sum(counts) if counts else None


def read_kernel_file(path: Path) -> str:
    """Return the stripped text of a small file that the system keeps, or "" if it can't be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _core_of(cpu: int) -> int:
    """Return the lowest CPU of the core that `cpu` belongs to: the kernel's list is in ascending order."""
    first = re.match(r"\d+", read_kernel_file(Path(SIBLINGS.format(cpu=cpu))))
    return int(first[0]) if first else cpu


def allowed_cores() -> dict[int, list[int]]:
    """Return the allowed CPUs of each core, by the core's lowest CPU (whether that one is allowed or not).

    The two CPUs of a core share its arithmetic units, so work on one slows down work on the other. With a CPU quota,
    only as many CPUs are returned as the quota covers (rounded down, at least one): the first ones of `spread`.
    """
    quota = cpu_quota()
    cpus = allowed_cpus()
    cores: dict[int, list[int]] = {}
    for cpu in cpus:
        cores.setdefault(_core_of(cpu), []).append(cpu)
    if quota is None or quota >= len(cpus):
        return cores
    usable = set(spread(cores.values())[: max(int(quota), 1)])
    return {core: [cpu for cpu in members if cpu in usable] for core, members in cores.items() if usable & set(members)}


def in_order_of_use(cpus: Iterable[int]) -> list[int]:
    """Return these CPUs, which this process may use, in the order of `spread`."""
    chosen = set(cpus)
    return spread([cpu for cpu in members if cpu in chosen] for members in allowed_cores().values())


def spread(cores: Iterable[Sequence[int]]) -> list[int]:
    """Return the CPUs in the order in which threads should use them: first one of each core, then the second ones."""
    return [cpu for cpus in zip_longest(*cores) for cpu in cpus if cpu is not None]
