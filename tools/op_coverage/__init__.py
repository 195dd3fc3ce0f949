"""PyTorch's operator database through Clutch, each sample beside eager."""
