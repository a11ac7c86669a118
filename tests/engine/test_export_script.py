from __future__ import annotations

import ast
import contextlib
import io
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engine_small
import msgspec
import numpy as np
import pytest
import torch
from engine_small import STARTED, FakeControl, losses_of, of, run, small_config
from PIL import Image

from tuitrain.config import ConfigError, with_changes
from tuitrain.engine import checkpoint, export
from tuitrain.engine.datasets.decode import FORMATS, decode_image
from tuitrain.engine.script.data import _IMAGES
from tuitrain.events import Checkpoint, Eval, RunStarted
from tuitrain.recipes import load_recipe


def exported(config: Any, folder: Path) -> tuple[str, dict[int, float], list[Eval]]:
    """The script of a finished run, and what that run told."""
    control = FakeControl(folder)
    events = run(config, control)
    assert events[-1].state == "finished"
    assert control.resolved is not None
    text = export.script(control.resolved, of(RunStarted, events)[0], control.environment)
    return text, losses_of(events), of(Eval, events)


def executed(text: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        # A flag of this module would hide what the script does not import.
        exec(compile(text, "exported.py", "exec", dont_inherit=True), {"__name__": "__main__"})
    return printed.getvalue()


def executed_alone(texts: list[str], folder: Path) -> list[str]:
    """What scripts print in a process of their own, one after the other."""
    names = [f"{number}.py" for number in range(len(texts))]
    for name, text in zip(names, texts, strict=True):
        assert "import tuitrain" not in text
        (folder / name).write_text(text)
    # The flag keeps even an installed tuitrain out of reach of a script that would import it.
    guard = "import sys, runpy; sys.modules['tuitrain'] = None\n"
    guard += "for path in sys.argv[1:]: print('==', path); runpy.run_path(path, run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", guard, *names], capture_output=True, text=True, timeout=240, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("== ")[1:]


def compare(output: str, losses: dict[int, float], evals: list[Eval], relative: float, floor: float) -> None:
    told = {int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", output, re.MULTILINE)}
    assert sorted(told) == sorted(losses)
    for step, loss in losses.items():
        assert abs(told[step] - loss) <= relative * max(loss, floor), f"step {step}"
    tested = re.findall(r"^epoch (\d+) test loss (\S+) \(sum over batches (\S+)\) accuracy (\S+)$", output, re.MULTILINE)
    assert [int(epoch) for epoch, *_ in tested] == [told.epoch for told in evals]
    for (_, mean, loss_sum, accuracy), told_eval in zip(tested, evals, strict=True):
        assert abs(float(mean) - told_eval.loss) <= relative * max(told_eval.loss, floor)
        assert abs(float(loss_sum) - told_eval.loss_sum) <= relative * max(told_eval.loss_sum, floor)
        assert float(accuracy) == pytest.approx(told_eval.accuracy, abs=1e-9)


def test_scripts_run_without_tuitrain(tmp_path: Path) -> None:
    linear = with_changes(load_recipe("random-linear"), {"device": "cpu", "seed": 7, "epochs": 2, "max_steps": 6})
    split = {"data": "synthetic", "device": "cpu,cpu", "batch_size": 250, "max_steps": 2}
    cases = [(linear, 1e-4), (with_changes(load_recipe("transformer"), split), 1e-3)]
    runs = [exported(config, tmp_path / str(number)) for number, (config, _) in enumerate(cases)]
    outputs = executed_alone([text for text, _, _ in runs], tmp_path)
    for output, (_, losses, evals), (_, relative) in zip(outputs, runs, cases, strict=True):
        compare(output, losses, evals, relative, 0.1)


def test_the_seed_recipe_as_a_script(tmp_path: Path) -> None:
    config = with_changes(load_recipe("seed-cnn"), {"data": "synthetic", "device": "cpu", "batch_size": 250, "max_steps": 3})
    text, losses, evals = exported(config, tmp_path)
    compare(executed(text), losses, evals, 2e-4, 0.1)
    for line in (
        "model = seed_cnn().to(device)",
        "criterion = nn.CrossEntropyLoss()",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)",
    ):
        assert line in text


@pytest.mark.parametrize(
    "changes",
    [
        {"precision": "fp64", "optimizer": "adam", "shuffle": True, "augment": "crop-flip", "max_steps": 10},
        {"precision": "fp64", "optimizer": "adamw", "weight_decay": 0.1, "model": "engine_small:make_dropout_net", "batch_size": 10},
        {"precision": "fp64", "momentum": 0.9, "data": "engine_small:make_images_without_test", "max_steps": 9},
        {"precision": "bf16", "seed": 3},
        {"loss": "nll", "model": "engine_small:make_log_net", "max_steps": 5},
        {"model": "engine_small:make_in_place", "data": "engine_small:make_floats"},
        {"model": "engine_small:make_with_gradients"},
        {"model": "engine_small:make_chance"},
        {"model": "engine_small:make_mapping"},
        {"model": "engine_small:make_mapping", "precision": "bf16", "tta": True},
        {"model": "engine_small:make_mapping", "device": "cpu,cpu"},
        {"model": "engine_small:device", "data": "export_names:device"},
    ],
    ids=[
        "adam",
        "adamw",
        "momentum",
        "bf16",
        "nll",
        "in place",
        "gradients",
        "chance",
        "mapping",
        "bf16 mapping",
        "split mapping",
        "names",
    ],
)
def test_the_persons_own_functions(tmp_path: Path, changes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "export_names", SimpleNamespace(device=engine_small.make_images))
    text, losses, evals = exported(small_config(**changes), tmp_path)
    relative, floor = (1e-9, 0.0) if changes.get("precision") == "fp64" else (2e-4, 0.1)
    compare(executed(text), losses, evals, relative, floor)


@pytest.mark.parametrize(
    "parts",
    [{"train": 5, "test": 2}, {"train": 5, "val": 2}, {"Training": 5, "TEST": 2, "val": 1}, {"train": 7}, {"": 7}],
    ids=["test", "val", "other names", "train alone", "classes alone"],
)
def test_a_folder_of_images(tmp_path: Path, parts: dict[str, int]) -> None:
    generator = np.random.default_rng(0)
    data = tmp_path / "images"
    for part, count in parts.items():
        for name in ("cat", "dog"):
            (data / part / name).mkdir(parents=True)
            for number in range(count):
                size, mode = ((32, 32), "RGB") if number else ((50, 40), "L")
                pixels = generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
                Image.fromarray(pixels).convert(mode).save(data / part / name / f"{number}.png")
    config = small_config(data=str(data), model="seed-cnn", batch_size=4)
    text, losses, evals = exported(config, tmp_path / "run")
    compare(executed(text), losses, evals, 2e-4, 0.1)


def reader_of_images() -> Callable[[Path], Any]:
    """The function by which scripts read an image."""
    names: dict[str, Any] = {"Image": Image, "np": np, "torch": torch, "FORMATS": FORMATS, "SIDE": 32}
    exec(_IMAGES, names)
    found: Callable[[Path], Any] = names["read_image"]
    return found


def test_a_file_that_is_no_image_for_the_run_is_none_for_the_script(tmp_path: Path) -> None:
    for format_ in ("TGA", "PPM", "TIFF", "PNG"):
        Image.new("RGB", (32, 32)).save(tmp_path / f"{format_}.png", format_)
    Image.new("F", (32, 32)).save(tmp_path / "floats.png", "TIFF")
    read = reader_of_images()
    assert [read(tmp_path / f"{name}.png") is None for name in ("TGA", "PPM", "floats", "TIFF", "PNG")] == [True] * 3 + [False] * 2
    text = export.script(small_config(data=str(tmp_path), device="cpu"), msgspec.structs.replace(STARTED, data="imagefolder"))
    assert f"FORMATS = {json.dumps(FORMATS)}" in text


def test_images_with_16_bits_are_scaled_in_the_script_too(tmp_path: Path) -> None:
    path = tmp_path / "ramp.png"
    Image.fromarray(np.linspace(0, 65535, 32 * 32).astype(np.uint16).reshape(32, 32)).save(path)
    pixels = reader_of_images()(path).numpy()
    assert np.array_equal(pixels, decode_image(str(path), 32)[0])
    assert (pixels[0, 0, 0], pixels[-1, -1, 0]) == (0, 255)
    assert len(np.unique(pixels)) == 256


@pytest.mark.parametrize("key", [str, str.encode], ids=["text", "bytes"])
def test_a_folder_of_cifar_batches(tmp_path: Path, key: Callable[[str], object]) -> None:
    generator = np.random.default_rng(0)
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        table = {"data": generator.integers(0, 256, (4, 3072), dtype=np.uint8), "labels": generator.integers(0, 10, 4).tolist()}
        (folder / name).write_bytes(pickle.dumps({key(name): value for name, value in table.items()}))
    config = small_config(data=str(tmp_path), model="seed-cnn", batch_size=5)
    text, losses, evals = exported(config, tmp_path / "run")
    compare(executed(text), losses, evals, 2e-4, 0.1)


def test_hostile_names_stay_text() -> None:
    config = small_config(name='"""; import os #')
    hostile = msgspec.structs.replace(config, data='/tmp/"+__import__("os").getcwd()+"', device="cpu")
    text = export.script(hostile, msgspec.structs.replace(STARTED, data="imagefolder"))
    tree = ast.parse(text)
    literals = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert '/tmp/"+__import__("os").getcwd()+"' in literals
    assert text.startswith('# """; import os #: a training run')


# -- weights ----------------------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_best_checkpoint(tmp_path: Path) -> None:
    events = run(small_config(), FakeControl(tmp_path / "run"))
    best = next(event for event in reversed(of(Checkpoint, events)) if event.kind == "best")
    output = tmp_path / "weights.pt"
    assert export.export_weights(tmp_path / "run", output) == (Path(best.path), "")
    weights = torch.load(output, weights_only=True)
    expected = checkpoint.load(Path(best.path)).model
    assert weights.keys() == expected.keys()
    assert all(torch.equal(weights[name], expected[name]) for name in expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "weights.pt"]


def test_a_damaged_best_falls_back_to_the_newest_valid_one(tmp_path: Path) -> None:
    run(small_config(data="engine_small:make_images_without_test"), FakeControl(tmp_path / "run"))
    parent = tmp_path / "run" / "checkpoints"
    (parent / "best").write_text("step-00000014\n")
    (parent / "step-00000014" / "model.safetensors").write_bytes(b"damaged")
    source, passed_over = export.export_weights(tmp_path / "run", tmp_path / "weights.pt")
    assert source == parent / "step-00000007"
    assert passed_over == "step-00000014: model.safetensors is not as it was written (SHA-256 differs)."
    (parent / "best").write_text("step-00000003\n")
    assert export.export_weights(tmp_path / "run", tmp_path / "weights.pt") == (source, "step-00000003 is not there any more")


def test_no_usable_checkpoint_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has no checkpoint that can be used; none has been saved"):
        export.export_weights(tmp_path, tmp_path / "weights.pt")


def test_an_output_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    run(small_config(epochs=1), FakeControl(tmp_path / "run"))
    with pytest.raises(ConfigError, match="cannot be written: No such file or directory"):
        export.export_weights(tmp_path / "run", tmp_path / "nowhere" / "weights.pt")
