"""What is trained, defined in numpy: recipe, input, initial weights, batch order, update rules and loss."""
