"""Learning rates that fall along a cosine: torch's own, for each optimizer, in scripts and in runs that go on."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from test_export_script import compare, executed, exported

from tuitrain.events import Step


def torchs(lr: float, steps: int) -> list[float]:
    """The rates of `steps` steps by torch's own schedule."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("changes", [{"momentum": 0.9}, {"optimizer": "adamw"}, {"max_steps": 10}], ids=["sgd", "adamw", "fewer steps"])
def test_a_cosine_is_torchs(tmp_path: Path, changes: dict[str, object]) -> None:
    events = of(Step, run(small_config(lr=0.05, lr_schedule="cosine", epochs=2, **changes), FakeControl(tmp_path)))
    assert [event.lr for event in events] == pytest.approx(torchs(0.05, len(events)), abs=1e-9)
    assert len(events) == changes.get("max_steps", 14)


def test_a_run_on_a_cosine_goes_on_bit_for_bit(tmp_path: Path) -> None:
    config = small_config(lr_schedule="cosine", optimizer="adam")
    unbroken = losses_of(run(config, FakeControl(tmp_path / "unbroken")))
    run(config, FakeControl(tmp_path / "broken", {6: ["stop"]}))
    assert losses_of(go_on(config, FakeControl(tmp_path / "broken"))) == {step: loss for step, loss in unbroken.items() if step > 6}


def test_a_cosine_as_a_script(tmp_path: Path) -> None:
    text, losses, evals = exported(small_config(precision="fp64", lr=0.1, lr_schedule="cosine"), tmp_path)
    compare(executed(text), losses, evals, 1e-9, 0.0)
    assert "import tuitrain" not in text
