"""The locale that counts: what the person says, in POSIX's order, and not what Python made of it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tuitrain.locales import named_locale

LATIN = "de_DE.ISO-8859-1"


@pytest.mark.parametrize(
    ("environment", "locale"),
    [
        ({}, ""),
        ({"LANG": LATIN}, LATIN),
        ({"LANG": LATIN, "LC_CTYPE": "en_US.UTF-8"}, "en_US.UTF-8"),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": LATIN}, LATIN),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": LATIN, "LC_ALL": "POSIX"}, "POSIX"),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": "", "LC_ALL": ""}, "en_US.UTF-8"),
    ],
)
def test_the_order_is_that_of_posix(environment: dict[str, str], locale: str) -> None:
    assert named_locale(environment) == locale


@pytest.mark.parametrize("coerced", ["C.UTF-8", "C.utf8", "UTF-8"])
def test_what_python_sets_for_itself_does_not_count(coerced: str) -> None:
    now = {"LANG": "C", "LC_CTYPE": coerced}
    assert named_locale(now, {"LANG": "C"}) == "C"
    assert named_locale(now, {"LANG": "C", "LC_CTYPE": "POSIX"}) == "POSIX"
    assert named_locale(now, now) == coerced


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("given", "locale"),
    [
        ({"LANG": "C"}, "C"),
        ({"LC_CTYPE": "C"}, "C"),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, "C.UTF-8"),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "C"}, "C"),
        ({}, ""),
    ],
)
def test_in_a_python_of_its_own(given: dict[str, str], locale: str) -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    ask = "import os; from tuitrain.locales import named_locale; print(named_locale(os.environ))"
    done = subprocess.run([sys.executable, "-c", ask], env=plain | given, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == f"{locale}\n"
