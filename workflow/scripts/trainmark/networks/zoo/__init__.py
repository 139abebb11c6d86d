"""The networks, one function each: (input shape, number of classes) -> Architecture."""
