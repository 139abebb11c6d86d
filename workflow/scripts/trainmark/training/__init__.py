"""One run: settings, loop, phases, checkpoints, status, how it ends and what a person sees."""
