"""trainmark's library: the same training in several frameworks, measured and compared honestly.

Imports run downward only (see docs/structure.md); a framework is imported in its adapter alone.
"""

__version__ = "0.1.0"
