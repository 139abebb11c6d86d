"""Atomic file writes, checksums, free disk space, and JSON files that are checked against a schema."""
