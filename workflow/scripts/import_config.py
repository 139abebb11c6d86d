"""Turn config.yaml or config.json of the original ImageNet recipe for TSUBAME into an experiment file.

The experiment goes to --out or to standard output. Standard error gets a line for each defect of the file and for what
the original did otherwise, and the words for config/site.yaml of a cluster. A value that is not allowed is refused.
"""

import argparse
import sys
from pathlib import Path

from trainmark.config.original import dump, dump_site, import_config
from trainmark.errors import ConfigError, run_command


def main() -> None:
    """Import the file, tell its defects, and write the experiment file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="config.yaml or config.json of the original")
    parser.add_argument("--name", help="name of the experiment (default: after jobname)")
    parser.add_argument("--out", type=Path, help="file to write; it must not exist (default: standard output)")
    arguments = parser.parse_args()
    imported = import_config(arguments.file, arguments.name)
    text = dump(imported, arguments.file)
    if arguments.out:
        try:
            with open(arguments.out, "x", encoding="utf-8") as out:
                out.write(text)
        except OSError as error:
            raise ConfigError(f"{arguments.out}: not written ({error.strerror}); choose another file name") from error
    else:
        print(text, end="")
    for report in imported.reports:
        print(report, file=sys.stderr)
    if site := dump_site(imported):
        print(f"for config/site.yaml of profiles/tsubame (docs/clusters.md), with your group:\n{site}", file=sys.stderr)


if __name__ == "__main__":
    run_command(main)
