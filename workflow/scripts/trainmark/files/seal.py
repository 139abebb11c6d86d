"""The SHA-256 that each of trainmark's JSON files stores of its own content.

It reveals damage, and edits that did not recompute it. It does not stop a forger, who can recompute it.
"""

import hashlib
import json
from collections.abc import Mapping

KEY = "sha256"
"""The top-level key under which a document stores its digest."""


def digest_of(document: Mapping) -> str:
    """SHA-256 of a document as JSON with sorted keys and without spaces; its own top-level digest is left out."""
    content = {key: value for key, value in document.items() if key != KEY}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(document: Mapping) -> dict:
    """Return a copy of the document with its digest added."""
    return {**document, KEY: digest_of(document)}


def is_sealed(document: Mapping) -> bool:
    """Whether a document's content matches the digest that it stores."""
    return document.get(KEY) == digest_of(document)
