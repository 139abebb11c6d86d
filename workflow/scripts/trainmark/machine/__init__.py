"""The machine: CPUs, GPUs and the locks on them; disturbances, energy, memory and provenance."""
