"""The figures: what they draw, one style, and the files."""
