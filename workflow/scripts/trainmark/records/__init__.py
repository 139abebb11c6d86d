"""The record that a run leaves: its schema, its phases, reading and writing."""
