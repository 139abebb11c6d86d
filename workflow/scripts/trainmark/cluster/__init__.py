"""Cluster profiles: jobs are submitted to a scheduler, followed, and cancelled there."""
