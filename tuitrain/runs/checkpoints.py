"""The checkpoints that a run has kept, as its folder tells them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tuitrain.paths import CHECKPOINTS, MANIFEST, best_name
from tuitrain.text import clean, readable


class _Manifest(msgspec.Struct):
    step: int
    kind: str


def checkpoints(folder: Path) -> list[dict[str, Any]]:
    """`{"step", "kind", "path"}` of each checkpoint in a run folder, by step; the one that is the best has the kind "best"."""
    found = []
    best = best_name(folder / CHECKPOINTS)
    for manifest in sorted((folder / CHECKPOINTS).glob(f"step-*/{MANIFEST}")):
        try:
            content = msgspec.json.decode(manifest.read_bytes(), type=_Manifest)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
            # Only a checkpoint with a whole manifest can be used, so only such a one is listed.
            continue
        kind = "best" if manifest.parent.name == best else clean(content.kind)
        found.append({"step": content.step, "kind": kind, "path": readable(manifest.parent)})
    return sorted(found, key=lambda checkpoint: checkpoint["step"])
