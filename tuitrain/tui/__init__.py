"""What a person sees: the only room that imports textual and plotext."""
