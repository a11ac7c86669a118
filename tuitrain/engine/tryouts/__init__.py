"""What a run needs is tried out before it exists: the model, its loss, and an optimizer of the person's own."""
