"""What `make torture` counted, as the README's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "tests" / "torture" / "results"


def newest(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """When each fault was tried last ("20261121-201500", UTC), and what was counted, in the order of `make torture`."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        for fault in json.loads(path.read_text(encoding="utf-8"))["faults"]:
            found[fault["fault"]] = (path.stem, fault)
    return list(found.values())


def markdown(counted: list[tuple[str, dict[str, Any]]]) -> str:
    """A line for each fault."""
    lines = ["| What is done to a run | tried | as expected | seen | on |", "|--|--|--|--|--|"]
    for stamp, fault in counted:
        day = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}"
        seen = f"not tried: {fault['left_out']}" if fault["left_out"] else "; ".join(fault["facts"]) or "-"
        lines.append(f"| {fault['name']} | {fault['tried']} | {fault['expected']} | {seen} | {day} |")
    return "\n".join(lines)
