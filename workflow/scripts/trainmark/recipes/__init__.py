"""Recipes and the numpy definition of a training: input, initial weights, batch order, update rules and loss."""
