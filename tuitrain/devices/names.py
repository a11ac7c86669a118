"""The names of products, as short as they tell cards apart."""

from __future__ import annotations

import re

_EVERYWHERE = ("NVIDIA ", "GeForce ", "(R)", "(TM)", " CPU", " Processor")
_MEMORY_KIND = re.compile(r" (HBM|GDDR)\d\w*$")


def short_name(name: str) -> str:
    """A product's name without what all of them have, and without the kind of its memory; of a MIG instance its profile."""
    for word in _EVERYWHERE:
        name = name.replace(word, "")
    return _MEMORY_KIND.sub("", name[max(name.find(" MIG "), 0) :]).strip()
