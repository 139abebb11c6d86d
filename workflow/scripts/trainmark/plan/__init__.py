"""From a config to its runs: which, in which order, from which files and which code."""
