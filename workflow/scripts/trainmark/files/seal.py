"""The SHA-256 that a JSON file of ours carries of itself: it shows an accident, or an edit that did not renew it."""

import hashlib
import json
from collections.abc import Mapping

KEY = "sha256"
"""Where a document holds its digest."""


def digest_of(document: Mapping) -> str:
    """SHA-256 of a document as JSON with sorted keys and without spaces; a digest at its top does not count."""
    content = {key: value for key, value in document.items() if key != KEY}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(document: Mapping) -> dict:
    """The document with its digest."""
    return {**document, KEY: digest_of(document)}


def is_sealed(document: Mapping) -> bool:
    """Whether a document is what its digest says."""
    return document.get(KEY) == digest_of(document)
