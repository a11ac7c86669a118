"""torch, imported before what of the engine needs it; this module itself does without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tuitrain.python import lasting_imports
from tuitrain.text import first_line


@contextmanager
def torch_first() -> Iterator[None]:
    """`lasting_imports` for modules that import torch.

    It is imported here alone, so that an error of torch's own is told from one of the modules that need it.

    Raises:
        ConfigError: torch is not installed, or cannot be imported.
    """
    with lasting_imports():
        try:
            import torch  # noqa: F401
        except Exception as error:  # a broken one raises what it likes
            from tuitrain.config import ConfigError  # not for every command

            raise ConfigError(_why_not(error)) from error
        yield


def _why_not(error: Exception) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        return "torch is not installed for this Python; `tuitrain doctor` says how to install it."
    return f"torch cannot be imported: {first_line(error)}; `tuitrain doctor` says why."
