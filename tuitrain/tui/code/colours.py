"""Python in the colours of the theme: each line as pieces with the name of a style."""

from __future__ import annotations

from typing import Literal

import msgspec

from tuitrain.text import clean

Shade = Literal["text", "strong", "dim", "primary", "accent", "good"]
"""Styles of `tuitrain.tui.look.Palette`."""


class Piece(msgspec.Struct, frozen=True):
    """A part of a line in one style."""

    text: str
    shade: Shade


def coloured(script: str) -> tuple[tuple[Piece, ...], ...]:
    """The lines of a Python script, control characters replaced."""
    from pygments.lexers.python import PythonLexer

    script = "\n".join(clean(line) for line in script.removesuffix("\n").split("\n"))
    lines: list[list[Piece]] = [[]]
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(script):
        shade = _shade(kind)
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append([])
            if part:
                _add(lines[-1], part, shade)
    return tuple(map(tuple, lines))


def _add(line: list[Piece], text: str, shade: Shade) -> None:
    """At the end of a line; what has the same style is one piece."""
    if line and line[-1].shade == shade:
        text = line.pop().text + text
    line.append(Piece(text, shade))


def _shade(kind: object) -> Shade:
    from pygments.token import Token

    shades: tuple[tuple[object, Shade], ...] = (
        (Token.Comment, "dim"),
        (Token.Literal.String.Doc, "dim"),
        (Token.Literal.String, "good"),
        (Token.Literal.Number, "accent"),
        (Token.Keyword, "primary"),
        (Token.Operator.Word, "primary"),
        (Token.Name.Class, "strong"),
        (Token.Name.Function, "strong"),
    )
    return next((shade for token, shade in shades if kind in token), "text")  # type: ignore[operator]
