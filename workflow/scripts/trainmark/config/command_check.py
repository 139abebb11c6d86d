"""Check the commands of a config for mistakes that the schema cannot find. Each is reported in one sentence."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from trainmark.config.schema_check import Finding
from trainmark.config.wording import format_value
from trainmark.files.system_files import own_paths
from trainmark.recipes.command import problems

ENVIRONMENTS = Path(__file__).resolve().parents[4] / "envs"


def command_findings(config: Mapping) -> Iterator[Finding]:
    """Yield a finding for each mistake in a command. config: the checked config, with defaults."""
    for name, experiment in config["experiments"].items():
        for command_name, command in experiment["commands"].items():
            for path, sentence in problems(command):
                yield ("experiments", name, "commands", command_name, *path), sentence
            if wrong := _no_environment(command["environment"]):
                yield ("experiments", name, "commands", command_name, "environment"), wrong


def _no_environment(named: str | None) -> str | None:
    names = [file.stem for file in own_paths(ENVIRONMENTS, "*.yaml")]
    if not named or named in names or Path(named).is_dir() or (named.endswith(".yaml") and Path(named).is_file()):
        return None
    return (
        f"found {format_value(named)}, which is not there; allowed: {', '.join(names)}, a .yaml file, or the folder of "
        "an environment"
    )
