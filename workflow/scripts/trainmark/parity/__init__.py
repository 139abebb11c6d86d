"""Checks whether two trainers train the same network: certified steps, traces, comparison and certificate."""
