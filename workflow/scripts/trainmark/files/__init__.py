"""Files that are there as a whole or not at all, checksums, free disk, and JSON against a schema."""
