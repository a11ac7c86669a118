from __future__ import annotations

import pytest

from tuitrain.config import DEFAULTS, ConfigError, parse_device, with_changes
from tuitrain.device_names import in_words, short
from tuitrain.recipes import command_line, load_recipe

EIGHT = tuple(f"cuda:{index}" for index in range(8))


@pytest.mark.parametrize(
    ("names", "two_or_more", "three_or_more"),
    [
        (("cpu",), "cpu", "cpu"),
        (("cpu", "cpu"), "cpu ×2", "cpu ×2"),
        (("cpu", "cpu", "cuda:0"), "cpu ×2, cuda:0", "cpu ×2, cuda:0"),
        (("auto:2",), "auto:2", "auto:2"),
        (EIGHT, "cuda:0-7", "cuda:0-7"),
        (("cuda:0", "cuda:1", "cuda:3", "cpu"), "cuda:0-1, cuda:3, cpu", "cuda:0, cuda:1, cuda:3, cpu"),
        (("cuda:9", "cuda:10", "cuda:11", "cuda:0"), "cuda:9-11, cuda:0", "cuda:9-11, cuda:0"),
        (("cuda:0", "cuda:0", "cuda:1"), "cuda:0 ×2, cuda:1", "cuda:0 ×2, cuda:1"),
        (("cuda:0", "cuda:1", "cuda:1"), "cuda:0, cuda:1 ×2", "cuda:0, cuda:1 ×2"),
        (("cuda:2", "cuda:1", "cuda:0"), "cuda:2, cuda:1, cuda:0", "cuda:2, cuda:1, cuda:0"),
        ((), "", ""),
    ],
)
def test_many_devices_take_few_cells(names: tuple[str, ...], two_or_more: str, three_or_more: str) -> None:
    assert in_words(names, shortest_range=2) == two_or_more
    assert in_words(names) == three_or_more


@pytest.mark.parametrize(
    ("typed", "stored", "shown"),
    [
        ("cuda:0-7", ",".join(EIGHT), "cuda:0-7"),
        ("cuda:0-1", "cuda:0,cuda:1", "cuda:0,cuda:1"),
        (" cuda:9-11 , cuda:0 , cpu", "cuda:9,cuda:10,cuda:11,cuda:0,cpu", "cuda:9-11,cuda:0,cpu"),
        ("cuda:3-3", "cuda:3", "cuda:3"),
        ("cpu,cpu", "cpu,cpu", "cpu,cpu"),
        ("cuda:0-2,cuda:0", "cuda:0,cuda:1,cuda:2,cuda:0", "cuda:0,cuda:1,cuda:2,cuda:0"),
        ("auto:2", "auto:2", "auto:2"),
    ],
)
def test_a_range_of_gpus_is_a_list_of_them(typed: str, stored: str, shown: str) -> None:
    config = with_changes(DEFAULTS, {"device": typed}, from_text=True)
    assert config.device == stored
    assert short(config.device) == shown
    assert with_changes(DEFAULTS, {"device": shown}, from_text=True) == config
    assert parse_device(typed) == parse_device(stored)


def test_the_copied_command_has_ranges() -> None:
    config = with_changes(load_recipe("seed-cnn"), {"device": ",".join(EIGHT)})
    assert command_line(config) == "tuitrain run seed-cnn --device cuda:0-7"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("cuda:7-0", "cuda:0-7"),
        ("cuda:0-", ""),
        ("cuda:00-3", "cuda:0-3"),
        ("cuda:0-10000", ""),
        ("0-3", "cuda:0-3"),
        ("gpu0-1,gpu3", "cuda:0-1,cuda:3"),
    ],
)
def test_what_is_no_range_is_refused(typed: str, meant: str) -> None:
    with pytest.raises(ConfigError) as refused:
        with_changes(DEFAULTS, {"device": typed}, from_text=True)
    allowed = "it must be auto, auto:N, auto:all, or one or several of cpu, cuda, cuda:N and cuda:N-M with commas."
    sentence = str(refused.value)
    assert sentence.startswith(f"device: {typed!r} is not allowed; {allowed}")
    assert (f"Did you mean {meant!r}?" in sentence) if meant else ("cuda:0-" not in sentence.removeprefix(f"device: {typed!r}"))
