"""Fetch files: download or copy them, resume interrupted transfers, and verify checksums."""
