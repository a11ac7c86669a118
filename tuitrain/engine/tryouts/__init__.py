"""What a run needs is tried out before it exists: data, model and loss, and an optimizer of the person's own."""
