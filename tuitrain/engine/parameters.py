"""What a network is made of, and what of it torch does not see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn

from tuitrain.events import Notice, Parameter, Parameters
from tuitrain.text import clean

# What every module has, such as the tables of its parameters, submodules and hooks.
_OWN = frozenset(vars(nn.Module()))
_INSTEAD = {
    ("layer", False): "nn.ModuleList",
    ("layer", True): "nn.ModuleDict",
    ("parameter", False): "nn.ParameterList",
    ("parameter", True): "nn.ParameterDict",
}


def parameters_event(model: nn.Module) -> Parameters:
    """Every parameter of `model`, in the order of its `named_parameters`, and a warning for each plain container that hides some."""
    rows = tuple(
        Parameter(
            name=clean(name),
            shape=tuple(parameter.shape),
            count=parameter.numel(),
            device=str(parameter.device),
            trainable=parameter.requires_grad,
        )
        for name, parameter in model.named_parameters()
    )
    return Parameters(rows=rows, warnings=tuple(_warnings(model)))


def notices(parameters: Parameters) -> Iterator[Notice]:
    """The warnings as notices."""
    for sentence in parameters.warnings:
        yield Notice(level="warning", text=sentence)


def _warnings(model: nn.Module) -> Iterator[str]:
    """One sentence for each attribute that is a plain list, tuple or dict with layers or parameters that are registered nowhere."""
    registered = {id(module) for module in model.modules()} | {id(parameter) for parameter in model.parameters()}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name in _OWN or not isinstance(value, (list, tuple, dict)):
                continue
            hidden = {id(item): item for item in _leaves(value, set()) if id(item) not in registered}
            for kind, base in (("layer", nn.Module), ("parameter", nn.Parameter)):
                if count := sum(isinstance(item, base) for item in hidden.values()):
                    where = clean(f"{path}.{name}" if path else name)
                    yield _sentence(where, kind, count, value, clean(type(module).__name__))


def _sentence(where: str, kind: str, count: int, container: Any, owner: str) -> str:
    mapping = isinstance(container, Mapping)
    plain = "dict" if mapping else "tuple" if isinstance(container, tuple) else "list"
    many, are, them = (f"{count} {kind}s", "are", "them") if count > 1 else (f"1 {kind}", "is", "it")
    instead = _INSTEAD[kind, mapping]
    return f"{where}: {many} {are} kept in a plain Python {plain} of {owner}; torch neither trains nor moves {them}; use {instead}."


def _leaves(value: Any, seen: set[int]) -> Iterator[nn.Module | nn.Parameter]:
    """The modules and parameters in a nest of plain containers; `seen` holds the containers that were entered."""
    if isinstance(value, (nn.Module, nn.Parameter)):
        yield value
    elif isinstance(value, (list, tuple, dict)) and id(value) not in seen:
        seen.add(id(value))
        for item in list(value.values()) if isinstance(value, dict) else value:
            yield from _leaves(item, seen)
