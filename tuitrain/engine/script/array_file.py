"""The part of an exported script that reads a file of arrays."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable

from tuitrain.config import RunConfig
from tuitrain.engine.datasets.arrays import Pictures, flat, part_of, parted
from tuitrain.engine.datasets.folder_contents import mixing_key
from tuitrain.engine.script.facts import Facts
from tuitrain.image_folders import held_out
from tuitrain.import_strings import is_import_string


def is_file(config: RunConfig, facts: Facts) -> bool:
    """Whether the data is such a file."""
    return facts.kind == "custom" and not is_import_string(config.data)


def imports(facts: Facts) -> tuple[set[str], set[str]]:
    """What the code takes from Python's own library, and from others."""
    return ({"import hashlib", "import os"} if _is_parted(facts) else set()), {"import numpy as np", "from PIL import Image"}


def parts(config: RunConfig, facts: Facts) -> str:
    """The code that makes `train` and `test`, each a pair of inputs and labels or a `Dataset`."""
    functions: list[Callable[..., object]] = [Pictures, part_of, flat]
    functions += [mixing_key, held_out, parted] if _is_parted(facts) else []
    sources = "".join(f"{inspect.getsource(function)}\n\n" for function in functions)
    arrays = [f"arrays[{_literal(name)}]" for name in facts.parts]
    pairs = [f"{inputs}, flat({labels})" for inputs, labels in zip(arrays[::2], arrays[1::2], strict=True)]
    if _is_parted(facts):
        made = [f"train, test = (part_of(*part) for part in parted({pairs[0]}))"]
    else:
        made = [f"{name} = part_of({pair})" for name, pair in zip(("train", "test"), pairs, strict=True)]
    return sources + "\n".join([f"arrays = np.load({_literal(config.data)})", *made, ""])


def _is_parted(facts: Facts) -> bool:
    """Whether some of the samples are held out to test with."""
    return len(facts.parts) == 2


def _literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
