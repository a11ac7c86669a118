"""Pasted text is data: no character of it may act as a key."""

from __future__ import annotations

from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START

_ESC = "\x1b"


class PasteGuard:
    """Takes Esc out of what is pasted. Textual's parser reads it as the key, and what follows it as another one.

    What a terminal sends may come in any pieces.
    """

    def __init__(self) -> None:
        self._pasting = False
        self._part = ""
        """The beginning of a mark at the end of the last piece: of the start's, which has been passed on, or of the end's, which waits."""

    def pass_on(self, text: str) -> str:
        """What of `text` the parser may have now."""
        passed = ""
        while text:
            if self._pasting:
                body, end, text = (self._part + text).partition(BRACKETED_PASTE_END)
                self._part = "" if end else _begun(body, BRACKETED_PASTE_END)
                passed += body.removesuffix(self._part).replace(_ESC, "") + end
                self._pasting = not end
            else:
                seen = self._part + text
                _, start, pasted = seen.partition(BRACKETED_PASTE_START)
                self._part = "" if start else _begun(seen, BRACKETED_PASTE_START)
                passed += text.removesuffix(pasted)
                self._pasting, text = bool(start), pasted
        return passed


def _begun(text: str, mark: str) -> str:
    """The beginning of `mark` that `text` ends with."""
    return next((mark[:count] for count in range(len(mark) - 1, 0, -1) if text.endswith(mark[:count])), "")
