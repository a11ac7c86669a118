"""What the processes that read samples begin with: what they import stays, see `lasting_imports`, so that they are ready sooner."""

from __future__ import annotations

from tuitrain.python import lasting_imports


def main() -> None:
    """As `readers.process.main`."""
    with lasting_imports():
        from tuitrain.engine.datasets.readers import process
    process.main()


if __name__ == "__main__":
    main()
