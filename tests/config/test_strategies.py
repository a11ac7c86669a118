"""Which devices each strategy takes."""

from __future__ import annotations

from itertools import product

import pytest

from tuitrain.config import ConfigError, RunConfig, with_changes
from tuitrain.strategies import STRATEGIES, Misfit, auto_takes, misfit


@pytest.mark.parametrize(
    ("devices", "misfits"),
    [
        ("cpu", {"dp": "cpu"}),
        ("cuda:0", {}),
        ("cuda:0,cuda:1", {"single": "several"}),
        ("cpu,cpu", {"single": "several", "dp": "cpu"}),
        ("cuda:0,cuda:0", {"single": "several", "dp": "twice", "ddp": "twice"}),
        ("cuda:0,cpu", {"single": "several", "dp": "cpu", "ddp": "mixed"}),
        ("cpu,cuda:0,cuda:0", {"single": "several", "dp": "cpu", "ddp": "mixed"}),
    ],
)
def test_what_keeps_a_strategy_from_some_devices(devices: str, misfits: dict[str, Misfit]) -> None:
    found = {strategy: misfit(strategy, devices.split(",")) for strategy in ("auto", *STRATEGIES)}
    assert {strategy: reason for strategy, reason in found.items() if reason} == misfits


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_configuration_is_refused_exactly_where_its_strategy_does_not_fit_its_devices(strategy: str) -> None:
    for count in (1, 2, 3):
        for devices in product(("cpu", "cuda:0", "cuda:1"), repeat=count):
            changes = {"device": ",".join(devices), "strategy": strategy}
            if misfit(strategy, devices) is None:
                assert with_changes(RunConfig(), changes).strategy == strategy
            else:
                with pytest.raises(ConfigError, match=f"strategy: {strategy} .*; use split"):
                    with_changes(RunConfig(), changes)


def test_auto_never_takes_a_strategy_that_does_not_fit() -> None:
    for count in (1, 2, 3):
        for devices in product(("cpu", "cuda:0", "cuda:1"), repeat=count):
            assert misfit(auto_takes(devices), devices) is None
