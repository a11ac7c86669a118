"""What the type hint of a field says: whether the field may be none, which words or numbers it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, get_args, get_origin

from msgspec import Meta

_NUMBER = re.compile(r"(?=[+-]?\.?\d)(?:\+|(-))?(\d*)(?:\.(\d*))?([eE][+-]?\d+)?", re.ASCII)


def choices(hint: Any) -> tuple[str, ...]:
    """The words that a field takes, where it takes only some."""
    inner = _without_meta(hint)
    return tuple(get_args(inner)) if get_origin(inner) is Literal else ()


def allowed(hint: Any) -> str:
    """What a field takes, in words."""
    if words := choices(hint):
        return f"one of {', '.join(words)}"
    if hint is bool:
        return "true or false"
    return next((meta.description for meta in getattr(hint, "__metadata__", ()) if meta.description), "text")


def is_optional(hint: Any) -> bool:
    """Whether a field may be none."""
    return type(None) in get_args(_without_meta(hint))


def is_number(hint: Any) -> bool:
    """Whether a field takes numbers."""
    return any(part in (int, float) for part in _parts(hint))


def upper_limit(hint: Any) -> float | None:
    """The greatest number that a field takes, or the first that is too great; `None` without a limit."""
    limits = (limit for part in _parts(hint) if isinstance(part, Meta) for limit in (part.le, part.lt) if limit is not None)
    return next(limits, None)


def reads_as_number(text: str) -> bool:
    """Whether a person means a number by it."""
    return _NUMBER.fullmatch(text) is not None


def as_in_json(text: str) -> str:
    """A number as JSON spells it, the only spelling that msgspec reads: people also write `.5`, `1.`, `+0.1` and `05`."""
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    minus, whole, fraction, exponent = (group or "" for group in match.groups())
    return f"{minus}{whole.lstrip('0') or '0'}{f'.{fraction}' if fraction else ''}{exponent}"


def _without_meta(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _parts(hint: Any) -> Iterator[Any]:
    """A type hint and all that it is made of, such as the `Meta` in one that may also be none."""
    yield hint
    for part in get_args(hint):
        yield from _parts(part)
