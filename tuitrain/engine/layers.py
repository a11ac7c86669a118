"""Which layer of a network an error came from: of one made of torch's own layers no line of the person's code says it."""

from __future__ import annotations

import traceback
from itertools import islice

from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tuitrain.engine.outputs import tensors
from tuitrain.text import clean

_CALL = nn.Module.__call__.__code__
_MOST_SHAPES = 3


def failed_layer(error: BaseException) -> str:
    """`layer '4', Linear, got [2, 7200]`: the innermost module whose call `error` ended, and the shapes of what it was given.

    Empty where that is the network itself, or where none was called. The frames of `error` say it, until their variables are taken
    away as `failures.empty_frames` does.
    """
    calls = [frame.f_locals for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code is _CALL]
    # What torch puts around a network is none of its layers.
    calls = [call for call in calls if not isinstance(call["self"], DistributedDataParallel)]
    if not calls:
        return ""
    network, layer = calls[0]["self"], calls[-1]["self"]
    name = next((name for name, module in network.named_modules() if module is layer), "")
    if not name:
        return ""
    given = tensors((calls[-1]["args"], calls[-1]["kwargs"]))
    shapes = " and ".join(str(list(tensor.shape)) for tensor in islice(given, _MOST_SHAPES))
    return f"layer {clean(name)!r}, {clean(type(layer).__name__)}, got {shapes or 'no tensor'}"
