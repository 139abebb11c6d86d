"""A campaign that a test follows on a scheduler: what it prints, which of its runs train, and in which jobs."""

import json
import subprocess
from contextlib import contextmanager, suppress
from itertools import chain

import psutil
import yaml
from harness import REPOSITORY, environment, write_config
from schedulers import wait_until


class Campaign:
    """A campaign in a folder of its own, on a scheduler or (None) on this machine."""

    def __init__(self, folder, config, scheduler=None, profile=None, site=None, threads=2, repository=REPOSITORY):
        folder.mkdir(exist_ok=True)
        self.folder, self.scheduler, self.results, self.config = folder, scheduler, folder / "results", config
        write_config(folder, config)
        where = ["--workflow-profile", str(repository / "profiles" / profile)] if profile else ["--cores", "2"]
        often = ["--seconds-between-status-checks", "2"] if profile else []
        self.command = ["snakemake", "--snakefile", str(repository / "Snakefile"), "--directory", str(folder)]
        self.command += [*where, *often, "--configfile", "experiment.yaml", "--set-threads", f"train={threads}"]
        self.environment = environment(TRAINMARK_CHECKPOINT_SECONDS="1", PYTHONUNBUFFERED="1")
        self.environment |= scheduler.environment if scheduler else {}
        for name in ("TRAINMARK_LOCK_FOLDER", "CUDA_VISIBLE_DEVICES"):  # the tests set them
            self.environment.pop(name, None)
        self.site = folder / "site.yaml"
        self.write_site(site or {})
        self.environment["TRAINMARK_SITE"] = str(self.site)
        self.calls = 0

    def write_site(self, site):
        """Write the site file. Locks are this campaign's own, because tests that run at a time share the machine."""
        self.site.write_text(yaml.safe_dump({"lock_folder": str(self.folder / "locks")} | site))

    def start(self, *arguments):
        """Start snakemake. What it prints goes to a file."""
        self.calls += 1
        self.output = self.folder / f"call{self.calls}.out"
        with self.output.open("w") as stream:
            return subprocess.Popen(
                [*self.command, *arguments], env=self.environment, cwd=self.folder, stdout=stream, stderr=stream
            )

    def run(self, *arguments, status=0, seconds=600):
        """Run snakemake, and return what it printed."""
        returned = self.start(*arguments).wait(seconds)
        assert returned == status, self.printed
        return self.printed

    @property
    def printed(self):
        return self.output.read_text()

    def jobs(self, state=None):
        """The training jobs in the queue, by repeat."""
        known = {}
        for file in self.folder.glob(".snakemake/cluster/*-train-*/job.json"):
            (output,) = json.loads(file.read_text())["outputs"]
            known[file.parent.name] = output.split("repeat-")[1].split("/")[0]
        return {
            known[job["name"]]: job["id"]
            for job in self.scheduler.queue()
            if job["name"] in known and state in (None, "running" if job["state"] in ("RUNNING", "r") else "waiting")
        }

    @contextmanager
    def held(self, process, repeats):
        """Let these repeats train to a checkpoint, and stand still while the body runs: so a fault meets all of them.

        process: the call of snakemake, which must not end before.
        """
        standing = {}  # by repeat, for each of its workers

        def stand():
            assert process.poll() is None, self.printed
            for training in self.trainings():
                words = training.info["cmdline"]
                repeat = words[words.index("--run") + 1].rpartition("-")[2]
                if repeat in repeats and list(self.results.glob(f"runs/**/repeat-{repeat}/**/epoch-*.npz")):
                    training.suspend()
                    standing.setdefault(repeat, set()).add(training)
            return len(standing) == len(repeats)

        wait_until(stand, f"the training of {repeats}", 240)
        yield
        for training in chain.from_iterable(standing.values()):
            with suppress(psutil.NoSuchProcess):
                training.resume()

    def trainings(self):
        """The processes that train; a launcher of workers is none."""
        return [
            process for process in psutil.process_iter(["cmdline", "cwd"])
            if any(word.endswith("/train.py") for word in (process.info["cmdline"] or ())[1:2])
            and process.info["cwd"] == str(self.folder)
        ]  # fmt: skip

    def submitted(self, repeat):
        """How many jobs of the scheduler have trained a repeat, by its output."""
        outputs = self.results.glob("logs/cluster/*-train-*.log")
        return sum(
            output.read_text().count("\nlocalrule train:")
            for output in outputs
            if f"/repeat-{repeat}/" in output.read_text()
        )
