"""A run as a plain PyTorch script: what is said of each part of it."""
