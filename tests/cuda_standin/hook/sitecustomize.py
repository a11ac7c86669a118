"""Python imports this by itself at each start: where torch is built for CUDA, its operators are replaced as soon as it is imported."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class _Torch(MetaPathFinder):
    """Finds torch as usual, and has something follow its import."""

    _looks = False

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch" or self._looks:
            return None
        self._looks = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looks = False
        if spec is not None and spec.loader is not None:
            _follow(spec.loader)
        return spec


def _follow(loader: Loader) -> None:
    execute = loader.exec_module

    def both(module: ModuleType) -> None:
        execute(module)
        if module.version.cuda:
            import cuda_operators

            cuda_operators.install()

    loader.exec_module = both  # type: ignore[method-assign]


sys.meta_path.insert(0, _Torch())
