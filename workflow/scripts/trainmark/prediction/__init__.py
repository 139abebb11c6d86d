"""A trained run applied to other texts."""
