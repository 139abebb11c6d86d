"""A network as data: a graph of layers, with shapes, parameters and floating-point operations."""
