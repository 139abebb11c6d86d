"""From records to tables: medians, comparisons with their intervals, verdicts."""
