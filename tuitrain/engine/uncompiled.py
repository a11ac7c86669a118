"""Training without torch's compiler in the process: torch imports it also where nothing is compiled.

That import takes 1 to 2 seconds and 70 to 100 MB in each process, and a screen stutters meanwhile. It only serves to hide functions of
torch's own from the compiler. Where a torch release does it in another way, nothing here changes anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch


def hide_nothing(kind: type) -> None:
    """Keep the methods of a class of torch's from importing the compiler when they are first called; nobody compiles them here."""
    for method in vars(kind).values():
        while (method := getattr(method, "__wrapped__", None)) is not None:
            method.__dynamo_disable = method


@contextmanager
def nothing_compiled_yet() -> Iterator[None]:
    """Within, torch hears that gradients are reduced as they are by default, without the compiler that would know of another way."""
    if "torch._dynamo" in sys.modules:
        yield
        return
    parts = {
        "utils": _StandIn("torch._dynamo.utils", get_optimize_ddp_mode=_default),
        "config": _StandIn("torch._dynamo.config", _get_optimize_ddp_mode=_default),  # where torch 2.6 asks
    }
    compiler = vars(torch)["_dynamo"] = _StandIn("torch._dynamo", **parts)
    try:
        yield
    finally:
        if vars(torch).get("_dynamo") is compiler:
            del vars(torch)["_dynamo"]


def _default() -> str:
    return "ddp_optimizer"


class _StandIn:
    """Stands for a module of the compiler until somebody needs more of it than is known without it."""

    def __init__(self, module: str, **known: object) -> None:
        self._module = module
        vars(self).update(known)

    def __getattr__(self, name: str) -> Any:
        # The compiler's own modules look for each other there while they are imported.
        vars(torch).pop("_dynamo", None)
        return getattr(import_module(self._module), name)
