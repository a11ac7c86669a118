"""Which cards a build of torch has kernels for."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TARGET = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def has_kernels(capability: tuple[int, int] | None, built: Sequence[str]) -> bool:
    """Whether a card can run what a torch was built for; true where that is not known, as of cards that are not NVIDIA's.

    Args:
        capability: as `torch.cuda.get_device_capability` gives it.
        built: as `torch.cuda.get_arch_list` gives it ("sm_90", "compute_90").
    """
    targets = [found for name in built if (found := _TARGET.fullmatch(name))]
    return capability is None or not targets or any(_runs_on(capability, target) for target in targets)


def _runs_on(capability: tuple[int, int], target: re.Match[str]) -> bool:
    """Kernels for the same major architecture up to the card's minor one run on it, and so does any older PTX. Those that end in "a" run on
    that very architecture alone, those that end in "f" on the same major one, whichever kind they are."""
    kind, letter, version = target[1], target[4], (int(target[2]), int(target[3]))
    if letter == "a":
        return version == capability
    return version <= capability and (version[0] == capability[0] or (kind == "compute" and not letter))
