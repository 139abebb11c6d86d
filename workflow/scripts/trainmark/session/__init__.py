"""One call of snakemake: what its rules look up, its lines of progress, and what happens before and after its jobs."""
