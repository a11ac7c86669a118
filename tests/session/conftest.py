"""A listener for a session's events."""

import pytest
from small_sessions import Heard


@pytest.fixture
def heard() -> Heard:
    return Heard()
