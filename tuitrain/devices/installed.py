"""What the torch that is installed here was built for, read from its files: nothing is imported, and no device is asked."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path


def cpu_only_torch() -> bool:
    """Whether torch is built for the CPU only; false also where its files do not say. It waits for the disk."""
    try:
        spec = find_spec("torch")
        folders = list(spec.submodule_search_locations or ()) if spec is not None else []
        said = _constants(Path(folders[0], "version.py").read_text(encoding="utf-8")) if folders else {}
    except Exception:  # a finder of somebody's own, or files that are no torch's: whoever imports it learns more
        return False
    return "cuda" in said and said["cuda"] is None and said.get("hip") is None


def _constants(source: str) -> dict[str, object]:
    """The plain values that a module's text gives to its names."""
    said: dict[str, object] = {}
    for line in ast.parse(source).body:
        if isinstance(line, ast.Assign | ast.AnnAssign) and isinstance(line.value, ast.Constant):
            target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
            if isinstance(target, ast.Name):
                said[target.id] = line.value.value
    return said
