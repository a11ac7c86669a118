"""No training waits for the import of torch's compiler, unless it compiles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from engine_small import FakeControl, run, small_config
from torch import nn

from tuitrain.engine.group import Group
from tuitrain.engine.strategies.distributed import Distributed
from tuitrain.engine.uncompiled import nothing_compiled_yet

folder = Path(sys.argv[1])
run(small_config(epochs=1, optimizer="adam"), FakeControl(folder))
assert "torch._dynamo" not in sys.modules, "one process"

cpu = torch.device("cpu")
dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
group = Group(cpu, lambda: None)
strategy = Distributed(nn.Linear(3, 2), nn.CrossEntropyLoss(), cpu, ("cpu",), nullcontext(), 0, group, may_skip=False)
strategy.step(torch.ones(4, 3), torch.zeros(4, dtype=torch.long))
dist.destroy_process_group()
assert "torch._dynamo" not in sys.modules, "a process for each device"

# Whoever asks for it gets it, also while it is not asked for.
with nothing_compiled_yet():
    defaults = {torch._dynamo.utils.get_optimize_ddp_mode(), torch._dynamo.config._get_optimize_ddp_mode()}
    assert torch._dynamo.config.cache_size_limit == sys.modules["torch._dynamo"].config.cache_size_limit
    assert torch._dynamo.config is sys.modules["torch._dynamo"].config
with nothing_compiled_yet():
    assert torch._dynamo is sys.modules["torch._dynamo"]
ask = getattr(torch._dynamo.utils, "get_optimize_ddp_mode", None) or torch._dynamo.config._get_optimize_ddp_mode  # before torch 2.7
assert defaults == {ask()}
"""


def test_torchs_compiler_is_left_out(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{PROGRAM}"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
