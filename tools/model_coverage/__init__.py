"""Models of transformers, timm and torchvision through Clutch, each beside eager."""
