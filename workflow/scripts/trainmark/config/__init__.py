"""Read a config and the dataset catalogue, check them, and fill in the defaults."""
