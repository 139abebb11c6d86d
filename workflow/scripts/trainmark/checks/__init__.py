"""Checks that the records of a campaign fit each other, and that their runs show the same training."""
