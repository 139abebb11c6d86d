"""Several campaigns: what two of them have in common and how they differ, and how many go on over time."""
