"""Files and folders that operating systems, network drives and programs add beside the user's own."""

import re
from fnmatch import translate
from pathlib import Path

ADDED_BY = {
    "macOS": "._*/.DS_Store/.AppleDouble/.AppleDB/.AppleDesktop/.apdisk/.fseventsd/.LSOverride/.Spotlight-V100/"
    ".DocumentRevisions-V100/.TemporaryItems/.Trashes/.VolumeIcon.icns/__MACOSX/Icon\r/Network Trash Folder/"
    "Temporary Items",
    "Windows": "Thumbs.db/Thumbs.db:*/ehthumbs.db/ehthumbs_vista.db/desktop.ini/$RECYCLE.BIN/"
    "System Volume Information/*:Zone.Identifier",
    "Linux": ".directory/.fuse_hidden*/.nfs*/.thumbnails/.Trash/.Trash-*/lost+found",
    "network drives": "@eaDir/@tmp/@Recycle/@Recently-Snapshot/.@__thumb/#recycle/#snapshot/.snapshot",
    "programs": ".dropbox*/.ipynb_checkpoints/.picasaoriginals/.picasa.ini/Picasa.ini/.stfolder/.stversions/.sync",
}
"""Patterns of their names, between slashes. Versions of the systems differ in letter case, so it does not count."""

_NAMES = re.compile(
    "|".join(translate(name) for names in ADDED_BY.values() for name in names.split("/")), re.IGNORECASE
)


def is_added_by_system(name: str) -> bool:
    """Whether a file or folder of this name, one part of a path, was added by a system and not by the user."""
    return bool(_NAMES.match(name))


def own_paths(folder: Path, pattern: str) -> list[Path]:
    """Return what `folder.glob(pattern)` finds, sorted, without what systems added."""
    found = sorted(folder.glob(pattern))
    return [path for path in found if not any(map(is_added_by_system, path.relative_to(folder).parts))]
