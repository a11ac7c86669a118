"""Runs that are kept, as the screens list, open and look into them."""
