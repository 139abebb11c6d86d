"""What a job gets: CPUs, GPUs and workers, its conda environment or container image, and its group on a cluster."""

import os
from collections.abc import Callable
from functools import cache, cached_property
from typing import Any

from trainmark.cluster.site import PREVIEW_VARIABLE, Site, read_site, scheduler_of, site_file
from trainmark.errors import refusing
from trainmark.plan.campaign import Campaign, Wildcards, option, trainer_of
from trainmark.session import internals
from trainmark.session.environments import (
    conda_file,
    environment_of,
    environment_of_command,
    image_of_command,
    required_image,
)
from trainmark.variant import split_name

THREADS = {"cpu": 2, "gpu": 4}
"""The most threads of a worker, by device. On a GPU run's threads, XLA compiles its programs and tries algorithms, and
images are loaded."""

LAUNCHER = "mpiexec --bind-to none"
"""What starts the workers of a run. Each worker chooses its CPUs itself, among those that no other run holds."""


def threads_that_fit(device: str, cores: int, workers: int, beside_cpu: bool) -> int:
    """Return the threads of each worker of a run on this device, among `cores` for all workers.

    Beside runs on the CPU, a run on the GPU gets more threads than they only if its cores and theirs fit side by side.
    Otherwise it would be trained when none of them is left, because Snakemake gives each core that gets free to a job
    that fits: with 4 cores, a campaign with a GPU takes up to half as long again, and its order is lost.

    workers: the most workers of a run of the experiment.
    beside_cpu: whether the campaign has runs on the CPU.
    """
    free = cores - THREADS["cpu"] if beside_cpu else cores
    return max(1, min(THREADS["cpu"], cores // workers), min(THREADS[device], free // workers))


def gpus(wildcards: Wildcards) -> int | None:
    """Return the number of GPUs of a framework's job; None, as not every scheduler understands a request for 0."""
    return 1 if trainer_of(wildcards).device == "gpu" else None


def gpus_of_workers(wildcards: Wildcards) -> int | None:
    """Return the number of GPUs of all workers of a framework's job, see `gpus`."""
    return gpus(wildcards) and trainer_of(wildcards).workers


def launcher(wildcards: Wildcards) -> str:
    """Return the command that starts the workers of a framework's job; an empty text for one worker."""
    return LAUNCHER if trainer_of(wildcards).workers > 1 else ""


def tasks(wildcards: Wildcards) -> int | None:
    """Return the number of workers of a framework's job; None for one, since a group of jobs would sum them."""
    workers = trainer_of(wildcards).workers
    return workers if workers > 1 else None


def for_each_worker(amount: int) -> Callable[[Wildcards], int]:
    """Return a function that gives a job this amount of a resource for each of its workers."""
    return lambda wildcards: amount * trainer_of(wildcards).workers


class Resources:
    """What rules look up for the jobs of a campaign: what depends on the options of the call."""

    def __init__(self, workflow: Any, call: internals.Call, campaign: Campaign) -> None:
        self._workflow, self._call, self.campaign = workflow, call, campaign

    def threads(self, wildcards: Wildcards) -> int:
        """Return the threads of each worker: those of THREADS, or fewer if the cores of this call are not enough.

        All trainers of an experiment on a device get as many, also in its variants, so that their workers differ in
        number alone.
        """
        device = trainer_of(wildcards).device
        cores = self._call.cores
        if not cores or not self._call.plans_jobs or not self._call.runs_here() or PREVIEW_VARIABLE in os.environ:
            return THREADS[device]
        most = self._most_workers(split_name(wildcards.experiment)[0])
        beside_cpu = any(trainer.device == "cpu" for trainer in self.campaign.trainers_of_runs)
        return threads_that_fit(device, cores, most, beside_cpu)

    def takes_all_threads(self, wildcards: Wildcards) -> bool:
        """Return whether a worker gets all threads that it may have, as it does on a cluster."""
        return self.threads(wildcards) == THREADS[trainer_of(wildcards).device]

    @cache  # noqa: B019 (a call has one session)
    def _most_workers(self, experiment: str) -> int:
        """Return the largest number of workers of an experiment, variants included."""
        found = [1]
        for name, own in self.campaign.config["experiments"].items():
            if split_name(name)[0] == experiment:
                found += own.get("workers", [])
        return max(found)

    def framework_environment(self, wildcards: Wildcards) -> str | None:
        """Return the conda file of a framework's job; None, which costs no time, if jobs run in this environment."""
        is_used = self._call.deployment or not self._call.runs_jobs  # such as with --containerize
        return str(conda_file(environment_of(trainer_of(wildcards)))) if is_used else None

    def framework_image(self, wildcards: Wildcards) -> str | None:
        """Return the container image of a framework's job."""
        image: str | None = self.image(environment_of(trainer_of(wildcards)))
        return image

    @cache  # noqa: B019 (a call has one session)
    @refusing
    def image(self, environment: str) -> str | None:
        """Return the container image of an environment. Without --sdm apptainer there need not be one."""
        return required_image(environment) if "apptainer" in self._call.deployment else None

    @refusing
    def command_environment(self, wildcards: Wildcards) -> str | None:
        """Return the conda file of a command; None if it needs none."""
        device = trainer_of(wildcards).device
        return environment_of_command(self.campaign.command(wildcards), device, self._call.deployment)

    @refusing
    def command_image(self, wildcards: Wildcards) -> str:
        """Return the option that names the image in which a command runs."""
        device = trainer_of(wildcards).device
        return option("--image", image_of_command(self.campaign.command(wildcards), device, self._call.deployment))

    @property
    def has_site(self) -> bool:
        """Whether there is a site file, which may put several trainings into a job on a cluster."""
        return site_file().exists()

    @property
    def runs_per_job(self) -> int:
        """The number of trainings that one job on a cluster may do (the site file's key)."""
        return self.site.runs_per_job if self._call.plans_jobs and self.site else 1

    def group_of_run(self, wildcards: Wildcards) -> str | None:
        """Return the group of a run. A run with several workers is always a job of its own, which asks for as many."""
        if tasks(wildcards) or self.runs_per_job == 1:
            return None
        group = self.campaign.group(wildcards, self.runs_per_job)
        internals.set_group_size(self._workflow, group, self.runs_per_job)
        return group

    @cached_property
    @refusing
    def site(self) -> Site | None:
        """The site file of the scheduler to which this call submits; None if jobs run here, or there is no file."""
        scheduler = self._call.scheduler()
        return read_site(scheduler_of(scheduler)) if scheduler else None
