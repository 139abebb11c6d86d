"""Labels new texts with the network of a trained run."""
