from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import ModuleType

import engine_small
import pytest
import torch
from engine_small import FakeControl, go_on, losses_of, of, run, small_config
from test_export_script import compare, executed, exported

from tuitrain.config import ConfigError
from tuitrain.engine.check import check
from tuitrain.engine.own import modules as own_modules
from tuitrain.engine.train import train
from tuitrain.events import Notice, Progress, RunStarted

NETS = """
from torch import nn
IMPORTED = []
def make_model(config):
    from {package}.sizes import HIDDEN
    IMPORTED.append(HIDDEN)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, HIDDEN), nn.Linear(HIDDEN, 4))
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Path:
    """A package in the working directory, of which one module is imported when the model is made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(own_modules, "_imported", {})
    monkeypatch.setattr(own_modules, "_trained", set())
    monkeypatch.setattr(own_modules, "_OTHERS", own_modules._OTHERS | {name.partition(".")[0] for name in sys.modules})
    folder = tmp_path / f"mine_{abs(hash(request.node.nodeid))}"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "nets.py").write_text(NETS.format(package=folder.name))
    (folder / "sizes.py").write_text("HIDDEN = 5\n")
    return folder


def trained(package: Path) -> tuple[int, list[str]]:
    """The parameters of a run with the package's model, and what is said of edits."""
    control = FakeControl(package.parent / "run")
    events = run(small_config(model=f"{package.name}.nets:make_model", max_steps=1), control)
    return of(RunStarted, events)[0].parameters, [notice.text for notice in of(Notice, events) if "anew" in notice.text]


def test_a_run_has_the_modules_as_they_were_edited_since_the_run_before(package: Path) -> None:
    assert trained(package) == (192 * 5 + 5 + 5 * 4 + 4, [])
    assert trained(package) == (192 * 5 + 5 + 5 * 4 + 4, [])
    assert sys.modules[f"{package.name}.nets"].IMPORTED == [5, 5]
    (package / "sizes.py").write_text("HIDDEN = 12\n")
    sentence = f"{package.name}.sizes changed since the run before: your own modules are imported anew."
    assert trained(package) == (192 * 12 + 12 + 12 * 4 + 4, [sentence])
    assert sys.modules[f"{package.name}.nets"].IMPORTED == [12]
    assert trained(package)[1] == []


def test_a_run_that_goes_on_with_code_that_was_edited_says_so(package: Path) -> None:
    config, folder = small_config(model=f"{package.name}.nets:make_model"), package.parent / "run"
    run(config, FakeControl(folder, {3: ["stop"]}))
    (package / "sizes.py").write_text("HIDDEN = 5  # in a module that the model imports, which nobody looks at\n")
    (package / "nets.py").write_text((package / "nets.py").read_text() + "# Another line.\n")
    texts = [event.text for event in of(Notice, go_on(config, FakeControl(folder))) if "bit for bit" in event.text]
    assert [text.rpartition(": ")[2] for text in texts] == ["nets.py was edited."]


def test_what_a_persons_code_sets_for_all_of_the_process_is_its_own_runs(package: Path) -> None:
    """As each of its imports and calls does in a process of its own."""
    (package / "sizes.py").write_text("import torch\ntorch.set_default_dtype(torch.float64)\nHIDDEN = 5\n")
    (package / "nets.py").write_text("import os\n" + NETS.format(package=package.name).replace("IMPORTED.append(HIDDEN)", "os.chdir('/')"))

    def losses(model: str) -> dict[int, float]:
        return losses_of(run(small_config(model=model, max_steps=2), FakeControl(package.parent / "run")))

    fresh = losses("engine_small:make_net")
    own = losses(f"{package.name}.nets:make_model")
    assert Path.cwd() == package.parent
    assert losses("engine_small:make_net") == fresh
    assert losses(f"{package.name}.nets:make_model") == own


SAYS_WHERE = {
    "import torch; torch.set_default_device('meta')": "torch's default device to meta",
    "import torch; torch.set_default_device('cuda')": "torch's default device to cuda",
    "import os; os.environ['CUDA_VISIBLE_DEVICES'] = '5'": "CUDA_VISIBLE_DEVICES to '5'",
    "import os; del os.environ['CUDA_DEVICE_ORDER']": "CUDA_DEVICE_ORDER to None",
}


@pytest.mark.parametrize(
    ("field", "module", "line"),
    [
        (field, module, line)
        for field in ("model", "data")
        # What is made on such a default device may fail by itself.
        for module, lines in (("nets", [*SAYS_WHERE]), ("sizes", [*SAYS_WHERE][2:]))
        for line in lines
    ],
)
def test_code_that_says_where_to_train_is_refused_each_time(
    package: Path, monkeypatch: pytest.MonkeyPatch, field: str, module: str, line: str
) -> None:
    """When it is imported, or called; what it has set is as it was, also for the screens and all that is started from here."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    nets = f"import engine_small\n{NETS.format(package=package.name)}\n"
    nets += f"def make_data():\n    from {package.name}.sizes import HIDDEN\n    return engine_small.make_images(None)\n"
    (package / "nets.py").write_text(nets)
    code = (package / f"{module}.py").read_text()
    (package / f"{module}.py").write_text(f"{line}\n{code}")
    value = f"{package.name}.nets:make_{field}"
    config, before = small_config(**{field: value}, max_steps=1), dict(os.environ)
    for _ in range(2):
        with pytest.raises(ConfigError) as error:
            run(config, FakeControl(package.parent / "run"))
        assert str(error.value).startswith(f"{field}: '{value}' sets {SAYS_WHERE[line]}, and it is device that says where a run trains; ")
        assert torch.get_default_device() == torch.device("cpu")
        assert dict(os.environ) == before
    (package / f"{module}.py").write_text(code)
    assert losses_of(run(config, FakeControl(package.parent / "run"))).keys() == {1}


def test_a_network_that_importing_its_module_makes_is_new_for_each_run(package: Path) -> None:
    """As it is in a process of its own: else the second run would go on training what the first one trained."""
    (package / "nets.py").write_text(
        "from torch import nn\nNET = nn.Sequential(nn.Flatten(), nn.Linear(192, 4))\ndef make_model(config): return NET"
    )
    config = small_config(model=f"{package.name}.nets:make_model", max_steps=3)
    first = losses_of(run(config, FakeControl(package.parent / "run")))
    assert config.model.partition(":")[0] not in sys.modules
    assert losses_of(run(config, FakeControl(package.parent / "run"))) == first
    check(config)
    assert losses_of(run(config, FakeControl(package.parent / "run"))) == first


SETS = """
import torch
torch.rand(3)
from {package}.nets import NET  # as a script has both
POINTS = torch.rand(40, 192), torch.arange(40) % 4
"""


def test_a_network_in_a_module_is_drawn_by_the_seed_for_each_run_and_in_its_script(package: Path) -> None:
    """With other code that draws numbers when it is imported, and imports the network, before it."""
    (package / "nets.py").write_text("from torch import nn\nNET = nn.Linear(192, 4)\n")
    (package / "sets.py").write_text(SETS.format(package=package.name))
    own = {"model": f"{package.name}.nets:NET", "data": f"{package.name}.sets:POINTS", "precision": "fp64", "batch_size": 8}
    found = [exported(small_config(**own, max_steps=9, seed=seed), package.parent / str(at)) for at, seed in enumerate((0, 1, 0))]
    assert not any(name.startswith(package.name) for name in sys.modules)  # nor do they stay in a GPU's memory
    assert found[0][1] == found[2][1]
    assert set(found[0][1].values()).isdisjoint(found[1][1].values())
    for text, losses, evals in found[:2]:
        assert f"from {package.name}.nets import NET as own_network\nmodel = own_network.to(device, torch.float64)" in text
        compare(executed(text), losses, evals, 1e-9, 1e-9)
        own_modules.note()
        own_modules.forget()


def test_a_network_that_nothing_makes_anew_is_refused_by_the_second_run(package: Path) -> None:
    """One of a module that is not imported anew, as one that is installed."""
    (package / "nets.py").write_text("import sys\ndef make_model(config): return sys.kept")
    sys.kept = engine_small.make_net(None)  # type: ignore[attr-defined]
    try:
        trained(package)
        with pytest.raises(ConfigError, match="returned the network of an earlier run again; it must make a new one each time"):
            trained(package)
    finally:
        del sys.kept  # type: ignore[attr-defined]


def test_what_was_refused_is_tried_as_it_was_mended(package: Path) -> None:
    (package / "sizes.py").write_text("HIDDEN = int('five')\n")
    with pytest.raises(ConfigError, match="ValueError"):
        trained(package)
    (package / "sizes.py").write_text("HIDDEN = None\n")
    with pytest.raises(ConfigError, match="TypeError"):
        trained(package)
    (package / "sizes.py").write_text("HIDDEN = 8\n")
    assert trained(package)[0] == 192 * 8 + 8 + 8 * 4 + 4
    (package / "nets.py").unlink()
    with pytest.raises(ConfigError, match="there is no module"):
        trained(package)


def test_what_of_ones_own_is_called_is_said_before(package: Path) -> None:
    (package / "nets.py").write_text("def make_model(config): raise ValueError")
    phases, model = list[str](), f"{package.name}.nets:make_model"
    events = train(small_config(model=model), FakeControl(package.parent / "run"))
    with pytest.raises(ConfigError, match="ValueError"):
        phases.extend(event.phase for event in events if isinstance(event, Progress))
    assert phases == ["calling engine_small:make_images", f"calling {model}"]


def test_the_engine_is_imported_while_another_thread_imports_something() -> None:
    """As tensorboard is while a run begins."""
    begun, over = threading.Event(), threading.Event()

    def import_and_forget() -> None:
        names = [f"of_another_thread_{index}" for index in range(50)]
        while not over.is_set():
            sys.modules.update({name: ModuleType(name) for name in names})
            for name in names:
                del sys.modules[name]
            begun.set()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    another = threading.Thread(target=import_and_forget)
    another.start()
    try:
        assert begun.wait(60)
        spec = own_modules.__spec__
        assert spec is not None
        assert spec.loader is not None
        for _ in range(100):
            spec.loader.exec_module(ModuleType(own_modules.__name__))
    finally:
        over.set()
        another.join()
        sys.setswitchinterval(before)
