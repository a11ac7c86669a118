"""Text in the code of an exported script."""

from __future__ import annotations

import json


def literal(text: str) -> str:
    """A text as Python has it in code, in double quotes."""
    return json.dumps(text, ensure_ascii=False)
