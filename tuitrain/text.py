"""Words: the one door for strings from outside (names, files, logs, GPU names), and what a misspelt one may have meant."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

# C0 and C1 controls (a terminal obeys them) and the bidirectional marks (they reorder what a person reads).
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_PLAIN_JSON = re.compile(rb"[\n -\[\]-~]*")


def clean(text: str) -> str:
    """`text` on one line, with every control and bidirectional character replaced by a space-like `·`."""
    return _UNSAFE.sub("·", text)


def is_utf8(text: str) -> bool:
    """Whether an argument or a file's name was UTF-8; what was not is a surrogate in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_plain_json(content: bytes) -> bool:
    """Whether no text in this JSON can hold what `clean` replaces: it is printable ASCII without escapes."""
    return _PLAIN_JSON.fullmatch(content) is not None


def clean_lines(text: str) -> str:
    """`text` as `clean` leaves it, but with its newlines and tabs: for what is more than a line, such as a traceback."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in "\n\t" else "·", text)


def one_line(text: str) -> str:
    """A text of several lines as one; the spaces around a single line may be meant, and stay."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[0] if len(lines) == 1 else " ".join(line.strip() for line in lines)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, or its type where it has none; without a full stop at its end."""
    return clean(str(error).strip().partition("\n")[0].rstrip(".")) or type(error).__name__


def traceback_of(error: BaseException) -> str:
    """The traceback, for the person whose code it may be; a message in it may hold what a terminal would obey."""
    import traceback  # not for every command

    return clean_lines("".join(traceback.format_exception(error)))


def print_error(error: BaseException) -> None:
    """The traceback on stderr."""
    sys.stderr.write(traceback_of(error))


def passing_line(what: str) -> None:
    """What is being done, on a line of a terminal's stderr that gives way to the next one; an empty text takes it away."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[2K{f'... {what}' if what else ''}")
        sys.stderr.flush()


def readable(path: Path) -> str:
    """A path as text that JSON can hold, also where a name in it is not UTF-8."""
    return os.fsencode(path).decode("utf-8", errors="replace")


def cut(text: str, width: int) -> str:
    """What fits `width` columns of a terminal, with a sign where there is more."""
    if columns_of(text) <= width:
        return text
    from rich.cells import set_cell_size

    return f"{set_cell_size(text, width - 1).rstrip()}…"


def whole_parts(parts: Sequence[str], between: str, width: int) -> str:
    """As many of the parts as have room whole in `width` columns of a terminal, with a sign where there are more; the first in any case."""
    shown, *more = parts
    while more and columns_of(longer := f"{shown}{between}{more[0]}") <= width:
        shown, more = longer, more[1:]
    marked = f"{shown} …"
    return marked if more and columns_of(marked) <= width else shown


def columns_of(text: str) -> int:
    """How many columns of a terminal a text takes, in which some characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # only what has other characters waits for it

    return cell_len(text)


def first_few(names: Sequence[str], most: int = 3) -> str:
    """Names for a sentence: the first ones, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def plural(noun: str, count: int) -> str:
    """The noun as it stands behind the number."""
    return noun if count == 1 else f"{noun}s"


def nearest(word: str, words: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the closest of `words` (two that are equally close are both named), or nothing.

    Neither case nor the dashes count with which every option begins.
    """
    import difflib  # not for every command

    def likeness(other: str) -> float:
        return difflib.SequenceMatcher(None, other, typed).ratio()

    def bare(other: str) -> str:
        return other.casefold().lstrip("-")

    spelt = {bare(other): other for other in words}
    typed = bare(word)
    close = difflib.get_close_matches(typed, spelt, n=2, cutoff=0.6)
    as_close = [other for other in close if likeness(other) == likeness(close[0])]
    quoted = " or ".join(f"'{spelt[other]}'" for other in as_close)
    return f" Did you mean {quoted}?" if quoted else ""
