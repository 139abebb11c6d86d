"""A real Slurm and a real Grid Engine with one node, from Debian's packages, for tests.

Each runs in a temporary folder, with its own configuration, ports, state and key. Of the machine's own installation
nothing is changed, and only Grid Engine's templates are read: both run beside each other and beside other schedulers.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from datetime import datetime
from functools import partialmethod
from pathlib import Path

from harness import free_ports

HOST = socket.gethostname()
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Of the daemons, which get nothing else of the tests' environment: sge_execd hands its own on to the jobs."""


def wait_until(condition, what, seconds=60):
    """Call `condition` until its result is true, and return that. TimeoutError: it was not after so many seconds."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"{what} did not come within {seconds} seconds")
        time.sleep(0.1)
    return result


def edited(file, values):
    """The text of a file of lines `<key> <value>` with some values replaced. ValueError: it lacks a key."""
    text = Path(file).read_text()
    for key, value in values.items():
        text, count = re.subn(rf"(?m)^({key}\s+).*", rf"\g<1>{value}", text)
        if count != 1:
            raise ValueError(f"{file} has {count} lines {key}")
    return text


class Scheduler:
    """A scheduler whose one node is this machine: a context manager, or to be started and stopped.

    A subclass gives what schedulers differ in; its strings may use `values` in braces. It has the methods

    - `configure`: write what the daemons read when they start;
    - `is_ready`: are controller and node in contact?
    - `queue`: the jobs (id, name, state).
    """

    PACKAGES: str
    """Debian's packages, with blanks."""
    ENVIRONMENT: dict[str, str]
    """What clients need in theirs. The first one names the folder: by it processes are recognized."""
    DAEMONS: dict[str, str]
    """Commands by name, in the order of start: the last two are the controller and the daemon of the node."""
    COMMANDS: dict[str, str]
    """What a client calls to cancel, requeue, hold and release a {job}."""

    def __init__(self, **values):
        self.values = {"host": HOST} | values
        self.folder, self.environment, self.daemons = None, {}, {}
        self.controller, self.node_daemon = list(self.DAEMONS)[-2:]

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @classmethod
    def missing(cls):
        """A sentence that says what this scheduler needs and does not have here; empty if it can start."""
        if not all(shutil.which(command.split()[0], path=PATH) for command in cls.DAEMONS.values()):
            return f"{cls.__name__} is not installed: apt-get install {cls.PACKAGES}"
        try:
            socket.gethostbyname(HOST)
        except OSError:
            return f"{cls.__name__} needs a host whose name ({HOST}) resolves: /etc/hosts"
        return "" if os.geteuid() == 0 else f"only root can start {cls.__name__}"

    def start(self):
        """Return when jobs can start. RuntimeError: they can't, with the ends of the daemons' logs."""
        self.folder = Path(tempfile.mkdtemp(prefix="sched-", dir="/tmp"))
        self.folder.chmod(0o755)
        controller_port, node_port = free_ports(2)
        self.values |= {"folder": self.folder, "controller_port": controller_port, "node_port": node_port}
        self.environment = {name: value.format(**self.values) for name, value in self.ENVIRONMENT.items()}
        try:
            self.configure()
            for name in self.DAEMONS:
                self.start_daemon(name)
            self.configure_running()
            self.wait_until_ready()
        except BaseException as error:
            logs = "".join(f"\n{log.name}:\n{log.read_text()[-2000:]}" for log in self.folder.glob("*.log"))
            self.stop()
            raise RuntimeError(f"{type(self).__name__} did not start: {error}{logs}") from error

    def stop(self):
        """Kill the daemons and all that has their environment, jobs and clients too, and remove the folder."""
        if self.folder is None:
            return
        while processes := self.processes():
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            for daemon in self.daemons.values():
                daemon.wait()
        shutil.rmtree(self.folder)
        self.folder, self.daemons = None, {}

    def processes(self):
        """The ids of all processes with the scheduler's environment, but this one's; the dead have none."""
        name, value = next(iter(self.environment.items()))
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                # not psutil's: it stops at the gaps that slurmstepd has in its environment
                if f"{name}={value}".encode() in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
        return set(found) - {os.getpid()}

    def start_daemon(self, name):
        command = self.DAEMONS[name].format(**self.values).split()
        environment = {"PATH": PATH, "SGE_ND": "1"} | self.environment
        with (self.folder / f"{name}.log").open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def stop_daemon(self, name, number):
        self.daemons[name].send_signal(number)
        self.daemons[name].wait(60)

    def stop_controller(self):
        """End slurmctld or sge_qmaster; clients get errors, and jobs go on."""
        self.stop_daemon(self.controller, signal.SIGTERM)

    def start_controller(self):
        self.start_daemon(self.controller)
        self.wait_until_ready()

    def kill_node_daemon(self):
        """Kill slurmd or sge_execd; jobs go on, and their ends are not heard of."""
        self.stop_daemon(self.node_daemon, signal.SIGKILL)

    def start_node_daemon(self):
        self.start_daemon(self.node_daemon)
        self.wait_until_ready()

    def run(self, *command, check=True, **options):
        """What a client's command prints; options are those of subprocess.run. RuntimeError: it failed."""
        environment = os.environ | self.environment
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, **options)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))} gave {done.returncode}: {done.stdout}{done.stderr}")
        return done.stdout

    def command(self, verb, job):
        return self.run(*self.COMMANDS[verb].format(job=job, **self.values).split())

    cancel, requeue = partialmethod(command, "cancel"), partialmethod(command, "requeue")
    hold, release = partialmethod(command, "hold"), partialmethod(command, "release")

    def wait_until_ready(self):
        wait_until(self.is_ready, f"{type(self).__name__}'s node")

    def configure_running(self):
        """Say what can be said only to running daemons."""


class Slurm(Scheduler):
    """Slurm with so many CPUs, so much memory in MB, and two GPUs, which are device files without a device.

    There is no accounting, so no sacct. What uses more memory than asked for is killed within seconds.
    """

    PACKAGES = "slurmctld slurmd slurm-client munge"
    ENVIRONMENT = {"SLURM_CONF": "{folder}/slurm.conf"}
    DAEMONS = {
        "munged": "munged -F --num-threads=2 --key-file={folder}/munge.key --socket={folder}/munge.socket"
        " --pid-file={folder}/munged.pid --log-file={folder}/munge.log --seed-file={folder}/munge.seed",
        "slurmctld": "slurmctld -D",
        "slurmd": "slurmd -D -N {host}",
    }
    COMMANDS = {
        "cancel": "scancel {job}",
        "requeue": "scontrol requeue {job}",
        "hold": "scontrol uhold {job}",
        "release": "scontrol release {job}",
    }

    def __init__(self, cpus=2, memory=16000):
        super().__init__(cpus=cpus, memory=memory)

    def configure(self):
        template = Path(__file__).with_name("slurm.conf").read_text()
        (self.folder / "slurm.conf").write_text(template.format(**self.values))
        (self.folder / "gres.conf").write_text(f"NodeName={HOST} Name=gpu File={self.folder}/nvidia[0-1]\n")
        for minor in (0, 1):
            os.mknod(self.folder / f"nvidia{minor}", stat.S_IFCHR, os.makedev(195, minor))
        for name in ("state", "spool", "tmp"):
            (self.folder / name).mkdir()
        (self.folder / "munge.key").touch(0o600)
        (self.folder / "munge.key").write_bytes(os.urandom(128))

    def is_ready(self):
        state = self.run("sinfo", "--noheader", "--format=%T", check=False)
        return bool(state) and not re.search(r"down|unknown|inval|\*", state)

    def queue(self):
        """Those that wait, run, or are completing."""
        lines = self.run("squeue", "--noheader", "--format=%i|%T|%j").splitlines()
        return [dict(zip(("id", "state", "name"), line.split("|", 2), strict=True)) for line in lines]

    def finished(self):
        """The jobs that ended, in that order; start and end in seconds since 1970. PENDING is a requeue."""
        log = self.folder / "finished"
        jobs = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in log.read_text().splitlines()] if log.exists() else []
        return [
            {"id": job["JobId"], "name": job["Name"], "state": job["JobState"]}
            | {key: datetime.fromisoformat(job[f"{key.title()}Time"]).timestamp() for key in ("start", "end")}
            for job in jobs
        ]


class GridEngine(Scheduler):
    """Grid Engine with the queue all.q of two slots, the parallel environment smp, and two of each consumable.

    Root may submit. What concerns a job's shell is as Debian has it.
    """

    PACKAGES = "gridengine-master gridengine-exec gridengine-client"
    ENVIRONMENT = {
        "SGE_ROOT": "{folder}",
        "SGE_CELL": "default",
        "SGE_QMASTER_PORT": "{controller_port}",
        "SGE_EXECD_PORT": "{node_port}",
    }
    DAEMONS = {"sge_qmaster": "sge_qmaster", "sge_execd": "sge_execd"}
    COMMANDS = {
        "cancel": "qdel {job}",
        "requeue": "qmod -rj {job}",
        "hold": "qhold {job}",
        "release": "qrls {job}",
    }
    CONSUMABLES = ("gpu", "q_node", "h_node", "f_node", "s_gpu")
    """Beside gpu the node types of TSUBAME."""
    FILES = {
        "default/common/bootstrap": {
            "admin_user": "root",
            "spooling_params": "{folder}/database",
            "qmaster_spool_dir": "{folder}/qmaster",
        },
        "configuration": {
            "execd_spool_dir": "{folder}/spool",
            "min_uid": "0",
            "min_gid": "0",
            "gid_range": "61400-61500",  # another Grid Engine on this machine finds its jobs by the default's
            "load_report_time": "00:00:02",
            "max_unheard": "00:00:20",
            "reporting_params": "accounting=true reporting=false flush_time=00:00:01 joblog=false sharelog=00:00:00",
        },
        "scheduler": {
            "schedule_interval": "0:0:2",
            "flush_submit_sec": "1",
            "flush_finish_sec": "1",
            "job_load_adjustments": "NONE",
        },
        "queue": {"hostlist": "{host}", "slots": "2", "load_thresholds": "NONE", "shell": "/bin/bash"},
    }
    """What differs from the package's files."""

    def write(self, name, original):
        """The path of a file of `FILES`, made from its original."""
        values = {key: value.format(**self.values) for key, value in self.FILES[name].items()}
        (self.folder / name).write_text(edited(original, values))
        return self.folder / name

    def shown(self, name, *options):
        (self.folder / name).write_text(self.run("qconf", *options))
        return self.write(name, self.folder / name)

    def configure(self):
        """What the package does when it is installed, in the folder."""
        tools, templates = Path("/usr/lib/gridengine"), Path("/usr/share/gridengine")
        for name in ("default/common", "database", "spool", "qmaster/job_scripts", "hosts"):
            (self.folder / name).mkdir(parents=True)
        self.write("default/common/bootstrap", templates / "default-bootstrap")
        (self.folder / "default/common/act_qmaster").write_text(HOST)
        (self.folder / "default/common/host_aliases").write_text(f"{HOST} localhost")
        resources = shutil.copytree(templates / "util/resources", self.folder / "resources")
        for name in self.CONSUMABLES:
            values = {"name": name, "shortcut": name, "default": "0", "urgency": "0"}
            (resources / "centry" / name).write_text(edited(resources / "centry/slots", values))
        offered = ",".join(f"{name}=2" for name in self.CONSUMABLES)
        (self.folder / "hosts" / HOST).write_text(f"hostname {HOST}\ncomplex_values {offered}\n")
        self.run(tools / "spoolinit", "berkeleydb", "libspoolb", self.folder / "database", "init")
        for what in (
            ("configuration", self.write("configuration", templates / "default-configuration")),
            ("complexes", resources / "centry"),
            ("usersets", resources / "usersets"),
            ("pes", resources / "pe"),
            ("exechosts", self.folder / "hosts"),
            ("managers", "root"),
        ):
            self.run(tools / "spooldefaults", *what)

    def configure_running(self):
        wait_until(lambda: self.run("qconf", "-sconf", check=False), "an answer of sge_qmaster")
        self.run("qconf", "-as", HOST)
        self.run("qconf", "-Msconf", self.shown("scheduler", "-ssconf"))
        self.run("env", "EDITOR=true", "qconf", "-aq", "all.q")
        self.run("qconf", "-Mq", self.shown("queue", "-sq", "all.q"))

    def is_ready(self):
        queue = self.qstat("-f", check=False).find(".//Queue-List")
        return queue is not None and queue.findtext("arch", "NA") != "NA" and "u" not in queue.findtext("state", "")

    def queue(self):
        """Those that wait (qw, hqw, Eqw, Rq) or run (r, Rr, dr)."""
        keys = {"id": "JB_job_number", "name": "JB_name", "state": "state"}
        jobs = self.qstat("-u", "*").iter("job_list")
        return [{key: job.findtext(element) for key, element in keys.items()} for job in jobs]

    def qstat(self, *options, check=True):
        return ElementTree.fromstring(self.run("qstat", "-xml", *options, check=check) or "<none/>")
