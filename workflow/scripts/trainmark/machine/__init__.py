"""The machine: CPUs, GPUs, locks on them, energy, memory and provenance."""
