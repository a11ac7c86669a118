"""What the launcher knows: its form, the hints beside it, the last launch, the download."""
