"""Which devices the next run takes: names, one for each replica, in the order of the list. None means that `auto` chooses."""

from __future__ import annotations

from collections.abc import Sequence

Names = tuple[str, ...]


def toggled(chosen: Names, name: str, order: Sequence[str]) -> Names:
    """`chosen` without `name` and all replicas on it, or with it where it was not there."""
    return tuple(one for one in chosen if one != name) if name in chosen else one_more(chosen, name, order)


def one_more(chosen: Names, name: str, order: Sequence[str]) -> Names:
    """`chosen` with another replica on `name`; a device that the list does not have stays at the end."""
    places = {each: place for place, each in enumerate(order)}
    return tuple(sorted((*chosen, name), key=lambda each: places.get(each, len(places))))


def one_less(chosen: Names, name: str) -> Names:
    """`chosen` with one replica less on `name`; unchanged where there is none."""
    if name not in chosen:
        return chosen
    last = len(chosen) - 1 - chosen[::-1].index(name)
    return chosen[:last] + chosen[last + 1 :]
