"""Images of a person's `Dataset` that have no size of their own, or not the one that a built-in network takes."""

from __future__ import annotations

from typing import Any

from tuitrain.config import DEFAULTS, RunConfig
from tuitrain.engine.datasets.torch_samples import as_tensor
from tuitrain.engine.models import BUILT_IN


def side_for(config: RunConfig, image: Any) -> int | None:
    """To how many pixels, in height and in width, all images are brought, as those of a folder are; `None`: they stay as they are.

    They are where `config.image_size` says another size than it does by itself, and where a built-in network does not take the first one.

    Args:
        image: the first of them, one of Pillow's.

    Raises:
        TypeError: its pixels are no bytes.
    """
    if config.image_size != DEFAULTS.image_size:
        return config.image_size
    built_in = BUILT_IN.get(config.model)
    if built_in is None or len(built_in.sample) != 3 or built_in.fits(as_tensor(image).shape):
        return None
    return config.image_size
