"""Runs of command recipes: any command, timed and watched like a training, and read for its epochs."""
