"""Expand a config into runs, with their order, their files and the code that they depend on."""
