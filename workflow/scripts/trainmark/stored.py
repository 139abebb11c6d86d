"""How image files are stored once they are decoded."""

STORED_SIDE = 256
"""Height and width, in pixels, to which image files are resized: the original ImageNet recipes' 256x256."""
