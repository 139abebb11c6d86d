"""Verification of a results folder, also one from somebody else."""
