"""Write a config file for a new experiment, with a comment on each key.

The values come from the options. Without any option it asks for each value on the terminal, and Enter takes the value
in brackets. Nothing is written if a value is not allowed or the file exists.
"""

import argparse
import os
import re
import shlex
import sys
import textwrap

import yaml

from trainmark.config.load import REPOSITORY, load_config, shipped_files
from trainmark.errors import ConfigError, run_command
from trainmark.frameworks.registry import known_frameworks
from trainmark.recipes.catalogue import RECIPES

KEYS = ("recipes", "datasets", "frameworks", "devices", "epochs", "repeats")
Texts = dict[str, str]
"""A text for each of "name", KEYS and "out"."""


def explain() -> tuple[Texts, Texts]:
    """Return, from config/schema.yaml, the default of each value as it would be typed, and its meaning."""
    schema, datasets = shipped_files()
    names = {"recipes": RECIPES, "datasets": datasets, "frameworks": known_frameworks()}
    defaults, meanings = {"name": "my-experiment"}, {"name": "Name: lower-case letters, digits and hyphens."}
    for key in KEYS:
        part = schema["$defs"]["experiment"]["properties"][key]
        allowed = f"some of {', '.join(names[key])}" if key in names else part["allowed"]
        defaults[key] = re.sub(r"[\[\]',]", "", str(part["default"]))
        meanings[key] = f"{part['description']} Allowed: {allowed}."
    return defaults | {"out": "<name>.yaml"}, meanings | {"out": "File to write."}


def parse_value(key: str, text: str) -> object:
    """Parse a key's value from words separated by spaces or commas. All values are lists, except repeats and auto."""
    words = [int(word) if re.fullmatch(r"-?\d+", word) else word for word in re.split(r"[,\s]+", text) if word]
    return words[0] if len(words) == 1 and (key == "repeats" or words == ["auto"]) else words


def create(texts: Texts, meanings: Texts) -> str:
    """Check the config, write it and return its path.

    Raises ConfigError if a value is not allowed or the file cannot be created, for example because it exists.
    """
    out = texts["out"].replace("<name>", texts["name"])
    document = {"experiments": {texts["name"]: {key: parse_value(key, texts[key]) for key in KEYS}}}
    load_config([], document, out)
    lines = ["# All keys: docs/config.md"]
    for line in yaml.safe_dump(document, default_flow_style=None, sort_keys=False, width=1000).splitlines():
        comment = meanings.get(line.removeprefix("    ").partition(":")[0], "")
        lines += [f"    # {part}" for part in textwrap.wrap(comment, 110, break_on_hyphens=False)] + [line]
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
    except OSError as error:
        raise ConfigError(f"{out}: not written ({error.strerror}); choose another file name") from error
    return out


def ask(texts: Texts, meanings: Texts) -> str:
    """Ask for each value until the config can be written, and return its path. texts: the values that Enter takes."""
    for key, text in texts.items():
        print("\n" + textwrap.fill(meanings[key], 110, break_on_hyphens=False))
        texts[key] = input(f"{key} [{text.replace('<name>', texts['name'])}]: ").strip() or text
    try:
        return create(texts, meanings)
    except ConfigError as error:
        print(f"\n{error}\n\nOnce more, please; Enter keeps what is in brackets.")
        return ask(texts, meanings)


def main() -> None:
    """Take the values from the options or ask for them, write the file, and print what to do next."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    defaults, meanings = explain()
    for key, default in defaults.items():
        text = f"{meanings[key]} Default: {default}".replace("%", "%%")
        parser.add_argument(f"--{key}", nargs="+", metavar=key.upper(), default=[default], help=text)
    texts = {key: " ".join(words) for key, words in vars(parser.parse_args()).items()}
    if len(sys.argv) == 1 and not sys.stdin.isatty():
        parser.error("no options were given, and there is no terminal to ask on")
    try:
        out = shlex.quote(ask(texts, meanings) if len(sys.argv) == 1 else create(texts, meanings))
    except EOFError:  # Ctrl-D
        raise KeyboardInterrupt from None
    validate = os.path.relpath(REPOSITORY / "workflow" / "scripts" / "validate.py")
    snakefile = os.path.relpath(REPOSITORY / "Snakefile")
    where = "" if snakefile == "Snakefile" else f" -s {shlex.quote(snakefile)}"
    print(f"\n{out} is written. Check it, and run it:\n  python {shlex.quote(validate)} {out}")
    print(f"  snakemake{where} --cores 4 --resources gpu=1 --configfile {out}")


if __name__ == "__main__":
    run_command(main)
