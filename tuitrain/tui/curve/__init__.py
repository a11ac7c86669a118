"""Curves: from the points of a run to lines of text, with axes, zoom, cursor and readings."""
