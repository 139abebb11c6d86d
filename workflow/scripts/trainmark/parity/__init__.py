"""Do two trainers train the same network? Certified steps, traces, comparison and certificate."""
