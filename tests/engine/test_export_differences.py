"""What the code view marks in the real scripts of every strategy."""

from __future__ import annotations

import pytest

from tuitrain.config import with_changes
from tuitrain.engine.export import script
from tuitrain.recipes import load_recipe
from tuitrain.tui.code.script import code_of, on_one_device
from tuitrain.tui.launch.hints import Machine

NAMED = Machine((), (), 2).named


@pytest.mark.parametrize(
    ("device", "strategy", "wanted"),
    [
        ("cpu,cpu", "split", "loss.backward()"),
        ("cuda:0,cuda:1", "split", "theirs.copy_(mine)"),
        ("cuda:0,cuda:1", "dp", "model = nn.DataParallel(model, device_ids=devices)"),
        ("cuda:0,cuda:1", "ddp", "model = DistributedDataParallel(model)"),
        ("cpu,cpu,cpu", "ddp", "dist.all_reduce(loss, group=sums)"),
    ],
)
def test_the_marked_lines_are_what_more_devices_need(device: str, strategy: str, wanted: str) -> None:
    config = with_changes(load_recipe("seed-cnn"), {"device": device, "strategy": strategy, "data": "synthetic"})
    code = code_of(config, NAMED, script)
    lines = code.text.removesuffix("\n").split("\n")
    assert ["".join(piece.text for piece in line) for line in code.lines] == lines
    new = [line for one in code.differences for line in range(one.start, one.end)]
    marked = [lines[number].strip() for number in new]
    assert wanted in marked
    # Without them nothing is left that one device does not need too, and the network and the data are not among them.
    plain = iter(script(on_one_device(config)).split("\n"))
    assert all(line in plain for number, line in enumerate(lines) if number not in new and line.strip())
    assert not any("Conv2d" in line or "synthetic_images" in line for line in marked)
    assert 0 < code.more <= code.new <= 46


def test_one_device_is_compared_with_itself() -> None:
    code = code_of(with_changes(load_recipe("random-linear"), {"device": "cpu", "strategy": "single"}), NAMED, script)
    assert (code.where, code.differences, code.more) == ("single on cpu", (), 0)
