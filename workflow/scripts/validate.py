"""Check config files without running anything: what they ask for, or what is wrong with them."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from trainmark.config.load import REPOSITORY, load_config
from trainmark.config.strict_yaml import read_yaml
from trainmark.datasets.catalogue import known_formats
from trainmark.errors import run_command
from trainmark.machine.gpus import find_gpus
from trainmark.plan.matrix import expand_runs


def key_rows(properties: dict, prefix: str) -> Iterator[str]:
    """Markdown table rows of the keys under a path."""
    for key, part in properties.items():
        allowed = part.get("allowed") or ", ".join(part["enum"])
        default = json.dumps(part["default"])
        yield f"| `{prefix}{key}` | {part['description']} | {allowed} | {part['unit']} | `{default}` |"
        yield from key_rows(part.get("properties", {}), f"{prefix}{key}.")


def entry_rows(properties: dict) -> Iterator[str]:
    """Markdown table rows of the keys of a dataset's entry, each with the formats that need it or may have it."""
    formats = known_formats().values()
    for key, part in properties.items():
        needed = [form.name for form in formats if key in form.required]
        possible = [form.name for form in formats if key in form.allowed and form.name not in needed]
        if key in ("title", "format"):
            needed, possible = ["all"], []
        yield f"| `{key}` | {part['description']} | {part['allowed']} | {', '.join(needed)} | {', '.join(possible)} |"


def keys_page() -> str:
    """Every key of a config and of a dataset's entry as a Markdown page, from config/schema.yaml."""
    schema = read_yaml(REPOSITORY / "config" / "schema.yaml")
    return "\n".join(
        [
            "# Config keys",
            "",
            "Printed by `python workflow/scripts/validate.py --keys` from `config/schema.yaml`.",
            "",
            "| key | what it means | allowed | unit | default |",
            "|---|---|---|---|---|",
            *key_rows(schema["properties"], ""),
            *key_rows(schema["$defs"]["experiment"]["properties"], "experiments.<name>."),
            "",
            "## Entries of datasets",
            "",
            "In `config/datasets.yaml`, and under `datasets` in a config. [datasets.md](datasets.md) explains the",
            "formats; image_folder and ilsvrc2012 need `files` or `folder`.",
            "",
            "| key | what it means | allowed | needed by | may stand in |",
            "|---|---|---|---|---|",
            *entry_rows(schema["$defs"]["catalogue"]["additionalProperties"]["properties"]),
        ]
    )


def main() -> None:
    """Check the files together, as snakemake --configfile would take them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", nargs="*", type=Path, default=[Path("config/config.yaml")], help="config files")
    parser.add_argument("--keys", action="store_true", help="print every key, with its meaning, unit and default")
    arguments = parser.parse_args()
    if arguments.keys:
        print(keys_page())
        return
    config, _ = load_config(arguments.config)
    runs = expand_runs(config, gpu_found=bool(find_gpus()))
    for name in config["experiments"]:
        print(f"{name}: {sum(run.experiment == name for run in runs)} runs")
    for name in config["prepare"]:
        print(f"{name}: fetched and prepared")
    print(f"{len(runs)} runs in all")


if __name__ == "__main__":
    run_command(main)
