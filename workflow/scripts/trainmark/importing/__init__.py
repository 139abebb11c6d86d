"""Takes over a network from a torch.nn.Module, and proves that it is the same."""
