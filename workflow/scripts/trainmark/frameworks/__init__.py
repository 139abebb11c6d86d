"""The adapter contract, and one adapter for each library with its layers, losses and update rules."""
