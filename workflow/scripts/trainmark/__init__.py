"""trainmark's library: the same training in several frameworks, measured and compared honestly.

The packages and their layers are in docs/structure.md; pyproject.toml holds them as import-linter contracts.
"""
