"""A run as a plain PyTorch script, compared with what one device would need."""
