"""Streams of images: read, cut, mirrored and handed to the network in batches while it trains."""
