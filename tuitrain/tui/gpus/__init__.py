"""What the GPU screen says of cards and processes, without widgets."""
