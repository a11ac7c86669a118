"""The person's own code in a run: how it is found, taken anew after edits, and named where it fails."""
