"""Draw the figures of one experiment, recipe and dataset, each as PDF, SVG and PNG, with its caption."""

import argparse
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from trainmark.errors import ConfigError, run_command
from trainmark.plan.figures import known_figures
from trainmark.report.figures.data import Data, read_data
from trainmark.report.figures.options import DEFAULT_OPTIONS, DPI, SIZES_PT, STYLES, WIDTHS_MM, FigureOptions
from trainmark.report.figures.save import save_figures
from trainmark.tables.sections import Section, read_results
from trainmark.variant import Group


def main() -> None:
    """Read the tables, the certificate and the published results, and draw and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results-folder", required=True, type=Path, help="folder of the tables and certificates")
    parser.add_argument("--experiment", required=True, help="name of the experiment")
    parser.add_argument("--recipe", required=True, help="name of the recipe")
    parser.add_argument("--dataset", required=True, help="name of the dataset")
    parser.add_argument("--threads", type=int, default=1, help="number of figures drawn at a time (default: 1)")
    parser.add_argument("--out-folder", required=True, type=Path, help="output: folder of the figures")
    add_options(parser)
    arguments = parser.parse_args()
    group = (arguments.experiment, arguments.recipe, arguments.dataset)
    section = section_of(group, arguments.results_folder)
    data = read_data(section, arguments.results_folder, FigureOptions.of(vars(arguments)))
    draw(data, arguments.out_folder, arguments.threads)


def section_of(group: Group, folder: Path) -> Section:
    """Read a section: experiment, recipe and dataset. Raises ConfigError if a results folder has none of this group."""
    sections = {section.group: section for section in read_results(folder, group[0]).sections}
    if group not in sections:
        known = ", ".join(" ".join(section.group) for section in read_results(folder).sections)
        raise ConfigError(f"{folder} has no runs of {' '.join(group)} (experiment, recipe, dataset); it has {known}")
    return sections[group]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of all figures: those of the config's key `figures`, which docs/config.md explains."""
    options = parser.add_argument_group("figures", "as the key figures of a config")
    options.add_argument(
        "--width", type=between(*WIDTHS_MM), metavar="MM", help="width in mm (default: that of 1 or 2 columns)"
    )
    options.add_argument("--style", choices=STYLES, help=f"default: {DEFAULT_OPTIONS.style}")
    options.add_argument("--font", metavar="FAMILY", help="font family (default: that of the style)")
    options.add_argument(
        "--size", type=between(*SIZES_PT), metavar="PT", help="size of type in points (default: that of the style)"
    )
    options.add_argument("--dpi", type=between(*DPI), help=f"dots per inch of the PNG (default: {DEFAULT_OPTIONS.dpi})")
    options.add_argument("--trainers", nargs="+", metavar="TRAINER", help="draw only these, such as chainer-cpu")


def between(low: int, high: int) -> Callable[[str], float]:
    """The type of an option that is a number in this range."""

    def number(text: str) -> float:
        value = float(text)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"found {text}; allowed: {low} to {high}")
        return value

    return number


def draw(data: Data, folder: Path, processes: int) -> None:
    """Draw all figures, a share of them in each process. Exit with status 1 if another process failed."""
    names = list(known_figures())
    shares = [partial(save_figures, data, folder, names[part::processes]) for part in range(processes)]
    # Forked, they need not import matplotlib. Not a pool: its processes would outlive a killed parent.
    others = [get_context("fork").Process(target=run_command, args=(share,), daemon=True) for share in shares[1:]]
    for process in others:
        process.start()
    shares[0]()
    for process in others:
        process.join()
    if any(process.exitcode for process in others):
        sys.exit(1)  # the process has printed why


if __name__ == "__main__":
    run_command(main)
