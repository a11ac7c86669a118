"""The part of an exported script that reads a file of arrays."""

from __future__ import annotations

import inspect
from collections.abc import Callable

from tuitrain.config import RunConfig
from tuitrain.engine.datasets.arrays import Pictures, flat, part_of, parted
from tuitrain.engine.datasets.folder_contents import mixing_key
from tuitrain.engine.script.facts import Facts
from tuitrain.engine.script.literals import literal
from tuitrain.events import DataKind
from tuitrain.image_folders import held_out
from tuitrain.import_strings import is_import_string


def is_file(config: RunConfig, kind: DataKind) -> bool:
    """Whether data of this kind is such a file."""
    return kind == "custom" and not is_import_string(config.data)


def is_parted(facts: Facts) -> bool:
    """Whether some of its samples are held out to test with."""
    return len(facts.parts) == 2


def parts(config: RunConfig, facts: Facts) -> str:
    """The code that makes `train` and `test`, each a pair of inputs and labels or a `Dataset`."""
    functions: list[Callable[..., object]] = [Pictures, part_of, flat]
    functions += [mixing_key, held_out, parted] if is_parted(facts) else []
    sources = "".join(f"{inspect.getsource(function)}\n\n" for function in functions)
    arrays = [f"arrays[{literal(name)}]" for name in facts.parts]
    pairs = [f"{inputs}, flat({labels})" for inputs, labels in zip(arrays[::2], arrays[1::2], strict=True)]
    if is_parted(facts):
        made = [f"train, test = (part_of(*part) for part in parted({pairs[0]}))"]
    else:
        made = [f"{name} = part_of({pair})" for name, pair in zip(("train", "test"), pairs, strict=True)]
    return sources + "\n".join([f"arrays = np.load({literal(config.data)})", *made, ""])
