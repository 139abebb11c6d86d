"""The site file: what a cluster needs that no workflow can know, such as the account to charge."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainmark.cluster.schedulers import RAW, SCHEDULERS, Scheduler
from trainmark.config.strict_yaml import read_yaml
from trainmark.errors import ClusterError, did_you_mean

SITE_VARIABLE = "TRAINMARK_SITE"
"""Environment variable that names another site file."""

SITE_FILE = "config/site.yaml"

MOST_RUNS_PER_JOB = 50
"""Snakemake does not tell the outputs of a job with more than 100, and a group that fails is submitted again whole."""

PREVIEW_VARIABLE = "TRAINMARK_PREVIEW"
"""Environment variable that makes a dry run print the submit commands of the profile that it names."""


@dataclass(frozen=True)
class Site:
    """The values of a site file. All have defaults, so that a cluster that needs none needs no file.

    options: values for the scheduler, by section: `all` jobs, those on a `gpu`, or those of the rule of that name.
    modules: file with `module load` lines, or any shell commands, that each job reads first.
    lock_folder: folder for the locks on CPUs and GPUs, which all jobs of a node share.
    scratch: folder on the disk of a node, to which datasets are copied once.
    runs_per_job: number of trainings that one job of the scheduler does, one after the other.
    """

    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    modules: str = ""
    lock_folder: str = "$HOME/.trainmark-locks/$(hostname)"
    scratch: str = ""
    runs_per_job: int = 1


def site_file() -> Path:
    """Return the path of the site file, which need not exist."""
    return Path(os.environ.get(SITE_VARIABLE) or SITE_FILE)


def read_site(scheduler: Scheduler) -> Site:
    """Read and check the site file.

    Raises ClusterError with one line for each mistake, and ConfigError if it is no YAML.
    """
    file = site_file()
    if not file.exists() and SITE_VARIABLE in os.environ:
        raise ClusterError(f"there is no file {file}, which {SITE_VARIABLE} names; write it, or unset the variable")
    document: dict[str, Any] = {
        key: os.path.expanduser(value) if isinstance(value, str) else value
        for key, value in (read_yaml(file) if file.exists() else {}).items()
    }
    mistakes = list(_mistakes(document, scheduler))
    if mistakes:
        raise ClusterError("\n".join(f"{file}: {mistake}" for mistake in mistakes))
    return Site(**document)


def _mistakes(document: Mapping[str, Any], scheduler: Scheduler) -> Iterator[str]:
    """Yield what is wrong in a site file."""
    fields = Site.__dataclass_fields__
    for key, value in document.items():
        if key not in fields:
            yield f"there is no key {key}; allowed: {', '.join(fields)}{did_you_mean(key, fields)}"
        elif key == "options":
            yield from _mistaken_options(value, scheduler)
        elif type(value) is not fields[key].type:
            yield f"{key}: found {value!r}; allowed: {ALLOWED[fields[key].type]}"
        elif key == "runs_per_job" and not 1 <= value <= MOST_RUNS_PER_JOB:
            yield f"{key}: found {value}; allowed: 1 to {MOST_RUNS_PER_JOB}"
        elif key == "modules" and value and not Path(value).is_file():
            yield f"modules: there is no file {value}; name an existing file with `module load` lines"
    options = document.get("options")
    given = options.get("all") if isinstance(options, dict) else None
    for name, reason in scheduler.required.items():
        if name not in (given if isinstance(given, dict) else {}):
            yield f"options.all.{name} is missing ({reason}); {scheduler.title} needs it"


NUMBERS = {"runtime", "mem_mb", "threads", "gpu", "nodes", "tasks"}
"""Options that are numbers. `runtime` is in minutes."""

ALLOWED: dict[Any, str] = {str: "a text", int: "a whole number"}


def _mistaken_options(options: object, scheduler: Scheduler) -> Iterator[str]:
    if not isinstance(options, dict):
        yield f"options: found {options!r}; allowed: sections (all, gpu, or the name of a rule) with values for each"
        return
    for section, values in options.items():
        if not isinstance(values, dict):
            yield f"options.{section}: found {values!r}; allowed: a mapping of {', '.join(sorted(scheduler.names))}"
            continue
        for name in values.keys() - scheduler.names:
            yield f"options.{section}: {unknown_name(name, scheduler)}"
        for name in NUMBERS & values.keys():
            if type(values[name]) is not int or values[name] < 1:
                yield f"options.{section}.{name}: found {values[name]!r}; allowed: a whole number above 0"
        if (name := values.get("jobname")) is not None and not re.fullmatch(r"[A-Za-z][\w.-]*", str(name)):
            yield f"options.{section}.jobname: found {name!r}; allowed: letters, digits, _, . and -, a letter first"
        if (kind := values.get("node_type")) and scheduler.node_types and kind not in scheduler.node_types:
            yield f"options.{section}.node_type: found {kind}; allowed: {', '.join(scheduler.node_types)}"


def check_sections(site: Site, rules: Iterable[str]) -> None:
    """Raise ClusterError if the options of a site file have a section that is neither all, gpu nor one of the rules."""
    allowed = ["all", "gpu", *rules]
    for section in site.options:
        if section not in allowed:
            raise ClusterError(f"{site_file()}: options: there is no rule {section}; allowed: {', '.join(allowed)}")


def unknown_name(name: str, scheduler: Scheduler) -> str:
    """Return the message for a value that a profile cannot pass to its scheduler."""
    raw = next((option for option, template in scheduler.options.items() if template == RAW), None)
    others = f"; any other option of {scheduler.submit[0]} goes into {raw}" if raw else ""
    return f"{scheduler.title} has no value {name}; allowed: {', '.join(sorted(scheduler.names))}{others}"


def scheduler_of(profile: str) -> Scheduler:
    """Return the scheduler of a cluster profile, given by the name of its folder. Raises ClusterError for others."""
    if profile not in SCHEDULERS:
        raise ClusterError(f"there is no cluster profile {profile}; allowed: {', '.join(SCHEDULERS)}")
    return SCHEDULERS[profile]
