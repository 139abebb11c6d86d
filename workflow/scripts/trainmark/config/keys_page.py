"""The page docs/config.md, which lists every key of a config."""

import json
from collections.abc import Iterator

from trainmark.config.load import shipped_files
from trainmark.datasets.catalogue import known_formats


def key_rows(properties: dict, prefix: str) -> Iterator[str]:
    """Yield a Markdown table row for each key under a path, and for the keys inside it."""
    for key, part in properties.items():
        allowed = part.get("allowed") or ", ".join(part["enum"])
        default = json.dumps(part["default"])
        yield f"| `{prefix}{key}` | {part['description']} | {allowed} | {part['unit']} | `{default}` |"
        yield from key_rows(part.get("properties", {}), f"{prefix}{key}.")


def entry_rows(properties: dict) -> Iterator[str]:
    """Yield a Markdown table row for each key of a dataset's entry, with the formats that require or allow it."""
    formats = known_formats().values()
    for key, part in properties.items():
        needed = [form.name for form in formats if key in form.required]
        possible = [form.name for form in formats if key in form.allowed and form.name not in needed]
        if key in ("title", "format"):
            needed, possible = ["all"], []
        yield f"| `{key}` | {part['description']} | {part['allowed']} | {', '.join(needed)} | {', '.join(possible)} |"


def keys_page() -> str:
    """Return a Markdown page with every key of a config and of a dataset's entry, made from config/schema.yaml."""
    schema, _ = shipped_files()
    from_folders = [form.name for form in known_formats().values() if "files|folder" in form.required]
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
            *key_rows(schema["$defs"]["command"]["properties"], "experiments.<name>.commands.<name>."),
            "",
            "## Entries of datasets",
            "",
            "In `config/datasets.yaml`, and under `datasets` in a config. [datasets.md](datasets.md) explains the",
            f"formats. These need `files` or `folder`: {', '.join(from_folders)}.",
            "",
            "| key | what it means | allowed | required by | optional for |",
            "|---|---|---|---|---|",
            *entry_rows(schema["$defs"]["catalogue"]["additionalProperties"]["properties"]),
        ]
    )
