from __future__ import annotations

import io
import json
import sys

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuitrain.text import clean, is_plain_json, nearest, passing_line


@given(st.text(), st.booleans())
def test_only_json_whose_texts_are_clean_is_plain(text: str, escaped: bool) -> None:
    content = json.dumps(text, ensure_ascii=escaped).encode()
    assert not is_plain_json(content) or clean(text) == text


def test_json_as_tuitrain_writes_it_is_plain() -> None:
    assert is_plain_json(msgspec.json.encode({"run": "20261121-0413-seed-cnn-k3f", "loss": 1.25, "device": ["cuda:0"], "note": None}))


@pytest.mark.parametrize("text", ["\x1b[2J", "\x7f", "a\nb", "深", "\u202e", '"', "\\"])
def test_json_with_anything_else_in_it_is_not(text: str) -> None:
    assert not is_plain_json(msgspec.json.encode({"note": text}))


@pytest.mark.parametrize(
    ("word", "words", "hint"),
    [
        ("DDP", ["dp", "ddp"], " Did you mean 'ddp'?"),
        ("adam", ["sgd", "Adam"], " Did you mean 'Adam'?"),
        ("fp16", ["fp32", "bf16", "fp64"], " Did you mean 'fp64' or 'bf16'?"),
        ("nothing", ["fp32"], ""),
    ],
)
def test_the_nearest_word_is_found_in_any_case_and_equally_near_ones_are_both_named(word: str, words: list[str], hint: str) -> None:
    assert nearest(word, words) == hint


@pytest.mark.parametrize(("terminal", "written"), [(True, "\r\x1b[2K... one\r\x1b[2K... two\r\x1b[2K"), (False, "")])
def test_a_passing_line_gives_way_and_is_for_a_terminal_alone(monkeypatch: pytest.MonkeyPatch, terminal: bool, written: str) -> None:
    stderr = io.StringIO()
    monkeypatch.setattr(stderr, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stderr", stderr)
    for what in ("one", "two", ""):
        passing_line(what)
    assert stderr.getvalue() == written
