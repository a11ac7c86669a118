"""What can be wrong with a run that was kept."""

from tuitrain.config import ConfigError


class RunError(ConfigError):
    """A run's folder or metrics cannot be read or changed. The text is one sentence for the person."""
