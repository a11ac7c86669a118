"""Pictures of the screens for the README."""
