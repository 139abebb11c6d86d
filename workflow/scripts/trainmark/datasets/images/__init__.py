"""Image files: one decoded, lists of them, packed into an array, averaged."""
