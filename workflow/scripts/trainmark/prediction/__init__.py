"""Labels new texts and photographs with the network of a trained run."""
