"""Files from other places: downloaded, continued where they broke off, and checked."""
