"""Check config files without running anything: how many runs they ask for, or what is wrong with them."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from trainmark.config import REPOSITORY, load_config, read_yaml
from trainmark.devices import find_gpus
from trainmark.errors import run_command
from trainmark.matrix import expand_runs


def key_rows(properties: dict, prefix: str) -> Iterator[str]:
    """Markdown table rows of the keys under a path."""
    for key, part in properties.items():
        allowed = part.get("allowed") or ", ".join(part["enum"])
        default = json.dumps(part["default"])
        yield f"| `{prefix}{key}` | {part['description']} | {allowed} | {part['unit']} | `{default}` |"
        yield from key_rows(part.get("properties", {}), f"{prefix}{key}.")


def keys_page() -> str:
    """Every key of a config as a Markdown page, from config/schema.yaml."""
    schema = read_yaml(REPOSITORY / "config" / "schema.yaml")
    rows = [
        *key_rows(schema["properties"], ""),
        *key_rows(schema["$defs"]["experiment"]["properties"], "experiments.<name>."),
    ]
    head = [
        "# Config keys",
        "",
        "Printed by `python workflow/scripts/validate.py --keys` from `config/schema.yaml`.",
        "",
    ]
    table = ["| key | what it means | allowed | unit | default |", "|---|---|---|---|---|", *rows]
    return "\n".join([*head, *table])


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
    print(f"{len(runs)} runs in all")


if __name__ == "__main__":
    run_command(main)
