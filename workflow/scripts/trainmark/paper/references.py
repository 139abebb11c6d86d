"""The references of a campaign as BibTeX: its frameworks in the versions that ran, its datasets, and trainmark."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

FILE = Path(__file__).with_name("references.bib")

OF_DATASETS = {
    "digits": ["digits"],
    "fashion-mnist": ["fashion-mnist"],
    "mnist": ["mnist"],
    "imdb": ["imdb"],
    "imagenette": ["imagenette", "imagenet"],
    "ilsvrc2012": ["imagenet"],
    "mini-imagenet": ["imagenet"],
}
"""The references of the datasets whose names begin so."""


def references(versions: Mapping[str, str], datasets: Iterable[str]) -> str:
    """Return a BibTeX file.

    versions: those of the packages that ran, by name.

    Packages and datasets without an entry in references.bib are left out.
    """
    texts = FILE.read_text(encoding="utf-8").split("\n\n")
    entries = {text.partition("{")[2].partition(",")[0]: text for text in texts}
    made = [
        re.sub(r"\n\}\s*$", f",\n  note = {{Version {version}}}\n}}", entries[name])
        for name, version in versions.items()
        if name in entries
    ]
    keys = [key for name in datasets for start, own in OF_DATASETS.items() if name.startswith(start) for key in own]
    return "\n\n".join(text.strip() for text in [*made, *(entries[key] for key in dict.fromkeys(keys))]) + "\n"
