"""What is pasted, in whatever pieces the terminal sends it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from textual._xterm_parser import XTermParser
from textual.events import Key, Paste
from textual.message import Message

from tuitrain.tui.terminal.paste import PasteGuard

START, END = "\x1b[200~", "\x1b[201~"
TEXTS = st.lists(st.sampled_from([*"\x1b[2O01~AqM<;5 ", "\r", "é", "\x1b[A", "\x1bOP", "\x1b[<0;3;3M", START])).map("".join)


def events(stream: str, cuts: list[int]) -> list[Message]:
    """What comes of `stream`, which arrives cut in these places."""
    guard, parser = PasteGuard(), XTermParser()
    edges = sorted({0, *(cut % (len(stream) + 1) for cut in cuts), len(stream)})
    pieces = [stream[begin:end] for begin, end in pairwise(edges)]
    return [event for piece in pieces if (passed := guard.pass_on(piece)) for event in parser.feed(passed)]


@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=8))
@example(text="\x1bq", cuts=[])
@example(text="\x1b[20", cuts=[8, 9, 10])
def test_a_paste_is_one_text_without_esc(text: str, cuts: list[int]) -> None:
    pasted, *after = events(f"{START}{text}{END}x", cuts)
    assert isinstance(pasted, Paste)
    assert pasted.text == text.replace("\x1b", "")
    assert [event.key for event in after if isinstance(event, Key)] == ["x"]
    assert len(after) == 1


@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_two_pastes_are_two(texts: list[str]) -> None:
    found = events("".join(f"{START}{text}{END}" for text in texts) + "x", [])
    assert [event.text for event in found if isinstance(event, Paste)] == [text.replace("\x1b", "") for text in texts]


@given(pieces=st.lists(TEXTS.filter(lambda text: START not in text)))
def test_what_is_typed_passes_at_once(pieces: list[str]) -> None:
    guard = PasteGuard()
    for index, piece in enumerate(pieces):
        if START in "".join(pieces[: index + 1]):
            break
        assert guard.pass_on(piece) == piece
