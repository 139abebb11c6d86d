"""Run records and cross-evaluations: their schemas, and how they are read, written and checked."""
