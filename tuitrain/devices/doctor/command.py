"""`tuitrain doctor`: one sample, one examination, and the report for a terminal, a pipe or a program."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from tuitrain.devices.doctor.examination import examine
from tuitrain.devices.doctor.exchange import all_reduce as two_ranks
from tuitrain.devices.doctor.exchange import two_devices
from tuitrain.devices.doctor.text import as_json as to_json
from tuitrain.devices.doctor.text import as_text
from tuitrain.devices.sampler import Sampler
from tuitrain.text import passing_line

FIRST_SAMPLE_SECONDS = 3.2
"""A little longer than the sampler takes to call a call that hangs by its name."""


def run(runs_dir: Path, *, as_json: bool, all_reduce: bool) -> str:
    """The report, with a line on a terminal's stderr meanwhile; at most 15 s, 30 more with `all_reduce`, and as long as
    cards take to wake."""
    sampler = Sampler()
    sampler.start()
    try:
        passing_line("what NVML says")
        snapshot = sampler.wait(FIRST_SAMPLE_SECONDS)
        report = examine(snapshot, runs_dir, say=passing_line)
        if all_reduce:
            passing_line("how two devices talk to one another, 30 s at most")
            report = msgspec.structs.replace(report, checks=(*report.checks, two_ranks(two_devices(snapshot))))
    finally:
        sampler.stop()
        passing_line("")
    if as_json:
        return to_json(report) + "\n"
    text = as_text(report, colour=sys.stdout.isatty() and "NO_COLOR" not in os.environ)
    # A terminal in another locale than UTF-8 gets "?" for a glyph and not a traceback.
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)
