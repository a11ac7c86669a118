"""The peer of the first frame: a Textual app with one word on it."""

from textual.app import App, ComposeResult
from textual.widgets import Static


class Empty(App[None]):
    """One word."""

    def compose(self) -> ComposeResult:
        """Compose it."""
        yield Static("ready")


if __name__ == "__main__":
    Empty().run()
