"""Runs that other processes train: watched, steered, started beside the app's own, and continued."""
