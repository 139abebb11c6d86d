"""Makes the folder of the paper kit from the tables, the summary and the figures of a campaign."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from trainmark.errors import DataError
from trainmark.files.whole import write_text, written_whole
from trainmark.paper.latex import texts_of
from trainmark.paper.numbers import numbers_of
from trainmark.plan.figures import known_figures
from trainmark.plan.products import PAPER_FILES
from trainmark.report.figures.data import options_of, read_data
from trainmark.report.figures.options import STYLES
from trainmark.report.figures.save import laid_out, write_figure
from trainmark.tables.sections import Section, read_results

FIGURE_KINDS = ("pdf", "svg", "caption.tex", "details.tex")


def make_kit(folder: Path, out: Path) -> str:
    """Write the kit of a results folder into the folder `out`, and return a line on what was made.

    All of it is made in a scratch folder first, so that a call that is stopped leaves the kit before it.

    Raises DataError if the user has a file of their own by the name of one of the kit.
    """
    results = read_results(folder)
    numbers = list(numbers_of(results))
    with TemporaryDirectory() as scratch:
        kit = Path(scratch)
        figures = {one.group: _draw(one, folder, results.plan["config"]["figures"], kit) for one in results.sections}
        for name, text in texts_of(results, numbers, figures):
            write_text(kit / name, text)
        _replace(out, kit)
    return f"{len(numbers)} numbers in {out}/numbers.tex"


def _draw(section: Section, folder: Path, chosen: Mapping, kit: Path) -> dict[str, float]:
    """Draw each figure that shows something, in the style for a paper; return its width in inches, by its path."""
    data, widths = read_data(section, folder, options_of(section, {"style": STYLES[1], **chosen})), {}
    for name in known_figures():
        drawn = laid_out(name, data)
        if drawn.shows:
            path = f"figures/{'/'.join(section.group)}/{name}"
            widths[path] = float(drawn.figure.get_size_inches()[0])
            for kind in FIGURE_KINDS:
                write_figure(drawn, kit / f"{path}.{kind}")
    return widths


def kit_files(folder: Path) -> set[str]:
    """Return the paths, in the folder of a kit, of what was made there. Raises DataError if the list is not ours."""
    listed = folder / PAPER_FILES
    if not os.path.lexists(listed):
        return set()
    with suppress(FileNotFoundError, IsADirectoryError, ValueError, RecursionError, TypeError):
        names = json.loads(listed.read_text(encoding="utf-8"))
        leaves = any(Path(name).is_absolute() or ".." in Path(name).parts for name in names)  # TypeError: not of texts
        if isinstance(names, list) and PAPER_FILES in names and not leaves:
            return set(names)
    raise DataError(f"{listed} is not one that trainmark wrote: rename yours")


def _replace(out: Path, kit: Path) -> None:
    """Remove the files of an earlier kit that the new one has not, and copy its own, each whole or not at all."""
    made = {file.relative_to(kit).as_posix() for file in kit.rglob("*") if file.is_file()} | {PAPER_FILES}
    earlier = kit_files(out)
    lists = [json.dumps(sorted(names), indent=1) + "\n" for names in (made, made | earlier)]
    write_text(kit / PAPER_FILES, lists[0])
    for name in sorted(made):
        file, folders = out / name, map(out.joinpath, Path(name).parents)
        own = [one for one in folders if os.path.lexists(one) and not one.is_dir()]
        is_ours = file.is_file() and (name in earlier or file.read_bytes() == (kit / name).read_bytes())
        if own := [*own, *([file] if os.path.lexists(file) and not is_ours else [])]:
            raise DataError(f"{own[0]} is your own, and the kit has a file or folder of this name; rename yours")
    write_text(out / PAPER_FILES, lists[1])  # a call that is stopped from here on leaves no file that none lists
    for name in earlier - made:
        if (out / name).is_file():
            (out / name).unlink()
    for name in made:
        with written_whole(out / name) as part:
            shutil.copyfile(kit / name, part)
