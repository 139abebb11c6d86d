"""Training of one run: settings, training loop, phases, checkpoints, status, process exit and display."""
