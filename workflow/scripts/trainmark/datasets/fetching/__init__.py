"""Fetch files: download or copy them, resume interrupted downloads, and verify checksums."""
