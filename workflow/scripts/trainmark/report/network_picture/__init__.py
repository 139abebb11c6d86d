"""A network drawn: boxes, their layout, the picture as SVG."""
