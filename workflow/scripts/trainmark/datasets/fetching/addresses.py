"""Addresses of files and mirrors: which kinds there are, and how they are shown without secrets.

Standard library only: a dry run checks the mirror of its config.
"""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

ALLOWED = "a folder, or a file://, http:// or https:// address"


def is_web(address: str) -> bool:
    """Whether an address needs a connection."""
    return address.partition(":")[0].lower() in ("http", "https")


def path_of(address: str) -> Path:
    """The path of a file:// address, or of a path that may begin with ~."""
    local = url2pathname(urlsplit(address).path) if address.startswith("file://") else os.path.expanduser(address)
    return Path(local)


def without_credentials(address: str) -> str:
    """The address without user name, password and query, which may hold secrets; a path as it is."""
    if address.startswith(("/", "~", ".", "file:///")):
        return address
    return re.sub(r"^(\w+:/+)?.*@", r"\1", re.sub(r"[?#].*", "", address, flags=re.DOTALL))


def in_mirror(mirror: str | None, path: str) -> list[str]:
    """Where a mirror holds a file: none or one place. A query, which may be a key, stays at the end of the address."""
    if not mirror:
        return []
    if "://" not in mirror:
        return [os.path.join(os.path.expanduser(mirror), path)]
    folder, mark, query = mirror.partition("?")
    return [f"{folder.rstrip('/')}/{path}{mark}{query}"]


def mirror_problem(mirror: str) -> str | None:
    """Why nothing can be fetched from this mirror, with what is allowed; None if it may hold files.

    No connection is opened: only the form of a web address is checked. A relative folder starts at the working
    directory, and ~ is the home folder.
    """
    if is_web(mirror):
        problem = None if re.match(r"\w+://[^/?#]", mirror) else "an address without a host"
    elif "://" in mirror and not mirror.startswith("file://"):
        problem = "an address with an unknown scheme"
    elif mirror.startswith("file://") and not mirror.startswith(("file:///", "file://localhost/")):
        problem = "a file:// address with a host in it"
    elif not path_of(mirror).is_dir():
        problem = f"which is not an existing folder{'' if path_of(mirror).is_absolute() else f' in {Path.cwd()}'}"
    else:
        return None
    return problem and f"found {without_credentials(mirror)}, {problem}; allowed: {ALLOWED}"
