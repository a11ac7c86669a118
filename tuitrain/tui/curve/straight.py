"""Straight lines from point to point: what they say at a place, and the part of them that an axis holds."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


def between(inputs: Sequence[float], outputs: Sequence[float], value: float) -> float:
    """The output at `value` on straight lines from input to input; beyond the first and the last the outermost line goes on."""
    if len(inputs) == 1:
        return outputs[0]
    right = min(max(bisect_right(inputs, value), 1), len(inputs) - 1)
    left = right - 1
    rise = inputs[right] - inputs[left]
    return outputs[left] if rise <= 0 else outputs[left] + (outputs[right] - outputs[left]) * (value - inputs[left]) / rise


def clip(points: Sequence[tuple[float, float]], low: float, high: float) -> list[tuple[float, float]]:
    """The part of a line through `points` that lies between x `low` and `high`, cut where it leaves."""
    inside = [point for point in points if low <= point[0] <= high]
    if len(inside) == len(points):
        return inside
    xs, ys = [x for x, _ in points], [y for _, y in points]
    edges = [edge for edge in (low, high) if xs[0] < edge < xs[-1] and all(edge != x for x, _ in inside)]
    return sorted([*inside, *((edge, between(xs, ys, edge)) for edge in edges)])
