from __future__ import annotations

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engine_small
import pytest
import torch
from engine_small import CLASSES, FakeControl, run, small_config
from test_export_script import compare, executed, exported
from torch import nn

from tuitrain.config import DEFAULTS, RECIPES, ConfigError, RunConfig, with_changes
from tuitrain.devices.installed import cpu_only_torch
from tuitrain.engine import export
from tuitrain.engine.models import build_model, linear, seed_cnn, takes_rows
from tuitrain.engine.optim import precision_notices
from tuitrain.engine.placement import place
from tuitrain.recipes import load_recipe


def test_the_seed_net_is_the_one_of_the_seeds() -> None:
    layers = list(seed_cnn().children())
    convolutions = [layer for layer in layers if isinstance(layer, nn.Conv2d)]
    assert [(layer.in_channels, layer.out_channels, layer.kernel_size, layer.padding) for layer in convolutions] == [
        (3, 32, (5, 5), (2, 2)),
        (32, 32, (5, 5), (2, 2)),
        (32, 64, (5, 5), (2, 2)),
    ]
    assert [(layer.in_features, layer.out_features) for layer in layers if isinstance(layer, nn.Linear)] == [(1024, 64), (64, 10)]
    assert {type(layer) for layer in layers} == {nn.Conv2d, nn.MaxPool2d, nn.Flatten, nn.Linear}
    assert sum(parameter.numel() for parameter in seed_cnn().parameters()) == 145_578
    assert seed_cnn()(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert linear()(torch.zeros(2, 5)).shape == (2, 2)


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name not in ("resnet18", "random-linear")])
@pytest.mark.parametrize("count", [1, 3, 120])
def test_a_built_in_network_gives_one_score_for_each_class(recipe: str, count: int) -> None:
    config = load_recipe(recipe)
    shape = ((2, 32, 96) if config.batch_dim == 0 else (32, 2, 96)) if takes_rows(config) else (2, 3, 32, 32)
    assert build_model(config, count).eval()(torch.zeros(shape)).shape == (2, count)


def test_the_linear_network_gives_one_score_for_each_class() -> None:
    assert build_model(load_recipe("random-linear"), 3)(torch.zeros(2, 5)).shape == (2, 3)


@pytest.mark.parametrize(
    ("model", "shape", "told"),
    [
        ("seed-cnn", (2, 28, 28), "'seed-cnn' does not take inputs [2, 2, 28, 28] of the data 'own:made': it is made for [N, 3, 32, 32]."),
        ("seed-cnn", (32, 32, 3), "it is made for [N, 3, 32, 32]; inputs.permute(0, 3, 1, 2) are these."),
        ("speedrun", (64, 48, 3), "it is made for [N, 3, H, W]; inputs.permute(0, 3, 1, 2) are these."),
        (
            "transformer",
            (3, 64, 64),
            "[64, 2, 192] of the data 'own:made': it is made for [N, 3, 32, 32]; images become that by torchvision's Resize((32, 32)).",
        ),
        ("seed-cnn", (1, 28, 28), "[N, 3, 32, 32]; images become that by torchvision's Grayscale(3) and Resize((32, 32))."),
        ("seed-cnn", (1, 32, 32), "[N, 3, 32, 32]; images become that by torchvision's Grayscale(3)."),
        ("linear", (20,), "it is made for [N, 5]."),
        ("speedrun", (3, 8, 8), "Output size is too small (layer 'layers.15', MaxPool2d"),
    ],
)
def test_a_built_in_network_says_what_it_is_made_for(
    model: str, shape: tuple[int, ...], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    samples = torch.zeros(2, *shape), torch.tensor([0, 1])
    monkeypatch.setitem(sys.modules, "own", SimpleNamespace(made=lambda config: (samples, None)))
    with pytest.raises(ConfigError) as refusal:
        run(small_config(model=model, data="own:made", batch_dim=int(model == "transformer")), FakeControl(tmp_path))
    assert told in str(refusal.value)


@pytest.mark.parametrize(("model", "batch_dim", "shape"), [("seed-cnn", 0, (3, 32, 32)), ("rnn", 1, (3, 32, 32)), ("linear", 0, (5,))])
def test_whole_numbers_for_what_computes_with_floats_are_refused_with_a_way_out(
    model: str, batch_dim: int, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    samples = torch.ones(2, *shape, dtype=torch.int32), torch.tensor([0, 1])
    monkeypatch.setitem(sys.modules, "own", SimpleNamespace(made=lambda config: (samples, None)))
    with pytest.raises(ConfigError, match="; the data gives whole numbers, which stay such: give floats, or uint8 where they are pixels"):
        run(small_config(model=model, data="own:made", batch_dim=batch_dim), FakeControl(tmp_path))


def test_a_token_that_an_embedding_does_not_know_is_told_as_torch_tells_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    samples = torch.full((2, 3), 9), torch.tensor([0, 1])
    own = SimpleNamespace(made=lambda: (samples, None), net=lambda: nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(6, 2)))
    monkeypatch.setitem(sys.modules, "own", own)
    with pytest.raises(ConfigError, match=r"index out of range in self \(layer '0', Embedding, got \[2, 3\]\)\.$"):
        run(small_config(model="own:net", data="own:made"), FakeControl(tmp_path))


def test_weights_depend_on_the_seed_alone() -> None:
    first = build_model(DEFAULTS).state_dict()
    torch.rand(5)
    again = build_model(DEFAULTS).state_dict()
    other = build_model(with_changes(DEFAULTS, {"seed": 1})).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("make_nothing", "returned a NoneType; it must return a torch.nn.Module."),
        ("make_no_parameters", "returned a module without parameters to train"),
        ("make_frozen", "returned a module whose parameters are all frozen (requires_grad is False)"),
        ("make_lazy", "returned a module with lazy layers; it must show them an input first, or name their sizes."),
        ("make_lazy_buffers", "returned a module with lazy layers"),
        ("make_meta", "returned a module on the meta device"),
        ("make_complex", "returned a module with complex parameters or buffers"),
        ("make_complex_buffer", "returned a module with complex parameters or buffers"),
        ("make_expanded", "returned a module with a parameter whose elements share memory (Tensor.expand)"),
        ("make_sparse_buffer", "returned a module with sparse parameters or buffers, which no checkpoint could keep"),
        ("make_torch_script", "returned a TorchScript module"),
        ("make_extra_state", "returned a module whose state_dict holds more than tensors"),
        ("make_interrupt", "raised KeyboardInterrupt (engine_small.py, line "),
        ("make_error", "raised KeyError: 'hidden_size' (engine_small.py, line "),
        ("make_images_", "Did you mean 'make_images'?"),
        ("NetWithSizes", "needs more than the configuration (in_features, out_features); it must be a function like make_model(config)."),
        ("FROZEN_NET", "is a module whose parameters are all frozen (requires_grad is False)"),
    ],
)
def test_a_bad_model_function_is_a_sentence(name: str, words: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        build_model(small_config(model=f"engine_small:{name}"))
    assert str(refusal.value).startswith("model: ")
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    ("vendor", "flags", "told"),
    [
        ("GenuineIntel", "avx2 avx512f", "cpu has no bf16 instructions: bf16 is emulated there, and slower than fp32."),
        ("GenuineIntel", "avx512f avx512_bf16", "cpu is an Intel processor without AMX: bf16 is slower there than fp32."),
        ("GenuineIntel", "avx512f avx512_bf16 amx_bf16 amx_tile", None),
        ("AuthenticAMD", "avx512f avx512_bf16", None),
        ("0x41", "asimd", "cpu has no bf16 instructions: bf16 is emulated there, and slower than fp32."),
        ("0x41", "asimd bf16", None),
        (None, None, None),
    ],
)
def test_bf16_on_a_processor_that_is_slow_in_it_is_a_warning(
    vendor: str | None, flags: str | None, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    monkeypatch.setattr("tuitrain.engine.optim._CPUINFO", cpuinfo)
    if vendor is not None:
        cpuinfo.write_text(f"vendor_id\t: {vendor}\nflags\t\t: fpu {flags}\n", encoding="utf-8")
    notices = precision_notices(small_config(precision="bf16"), torch.device("cpu"))
    assert [(notice.level, notice.text) for notice in notices] == ([] if told is None else [("warning", told)])


def test_each_gpu_is_asked_for_bf16_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=8 - device.index))
    config = with_changes(DEFAULTS, {"precision": "bf16"})
    first, second = (precision_notices(config, torch.device("cuda", index)) for index in range(2))
    assert first == []
    assert [notice.text for notice in second] == ["cuda:1 has no bf16 instructions: bf16 is emulated there, and slower than fp32."]


def test_where_there_is_no_tf32_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(major=8 - device.index))
    config = with_changes(DEFAULTS, {"precision": "tf32"})
    assert precision_notices(config, torch.device("cuda", 0)) == []
    for name in ("cuda:1", "cpu"):
        (notice,) = precision_notices(config, torch.device(name))
        assert (notice.level, notice.text) == ("warning", f"{name} has no TF32: matrices are multiplied in fp32 there.")


# -- devices ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr("tuitrain.engine.placement.cuda_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr("tuitrain.engine.placement.cuda_count", lambda: 0)


@pytest.mark.usefixtures("no_gpu")
def test_without_a_gpu_auto_is_the_cpu_and_says_why() -> None:
    placement = place("auto", lambda: [])
    assert placement.device == torch.device("cpu")
    assert placement.notices[0].text.startswith("Training on the CPU: ")
    assert place("cpu", lambda: []).notices == ()


def test_the_files_of_torch_say_of_its_build_what_it_says_itself() -> None:
    assert cpu_only_torch() is (torch.version.cuda is None and torch.version.hip is None)


NO_DRIVER = "Found no NVIDIA driver on your system.\nPlease check"


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("cuda", "visible", "error", "reason"),
    [
        (None, None, RuntimeError("not asked"), "is built for the CPU only"),
        ("13.0", "", RuntimeError("No CUDA GPUs are available"), "torch sees no GPU with CUDA_VISIBLE_DEVICES=''"),
        ("13.0", None, RuntimeError("No CUDA GPUs are available"), "torch cannot use a GPU (No CUDA GPUs are available)"),
        ("13.0", None, RuntimeError(NO_DRIVER), "torch cannot use a GPU (Found no NVIDIA driver on your system)"),
        ("13.0", "0", RuntimeError(NO_DRIVER), "torch cannot use a GPU (Found no NVIDIA driver on your system)"),
        ("13.0", "0", torch.cuda.DeferredCudaCallError("CUDA call failed lazily"), "torch cannot use a GPU (CUDA call failed lazily)"),
    ],
)
def test_cuda_without_a_gpu_says_why(
    monkeypatch: pytest.MonkeyPatch, cuda: str | None, visible: str | None, error: Exception, reason: str
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.version, "hip", None)
    monkeypatch.setattr(torch.cuda, "init", fail)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(ConfigError) as refusal:
        place("cuda", lambda: [])
    assert str(refusal.value).startswith("device: 'cuda' cannot be used: ")
    assert reason in str(refusal.value)
    assert str(refusal.value).endswith("; choose cpu or auto.")


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("spec", "free", "devices", "notices"),
    [
        ("auto", [1, 0], ["cuda:1"], 0),
        ("auto", [], ["cuda:0"], 0),
        ("auto", [5, 1], ["cuda:1"], 0),
        ("auto:all", [1, 0], ["cuda:1", "cuda:0"], 0),
        ("auto:2", [1], ["cuda:1", "cuda:0"], 0),
        ("auto:3", [], ["cuda:0", "cuda:1"], 1),
        ("cuda", [1, 0], ["cuda:0"], 0),
        ("cuda:1", [], ["cuda:1"], 0),
        ("cuda:1,cpu,cuda:1", [], ["cuda:1", "cpu", "cuda:1"], 0),
    ],
)
def test_which_gpus_are_taken(spec: str, free: list[int], devices: list[str], notices: int) -> None:
    placement = place(spec, lambda: free)
    assert [str(device) for device in placement.devices] == devices
    assert str(placement.device) == devices[0]
    assert len(placement.notices) == notices


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(("spec", "starts"), [("auto", True), ("cuda:1", True), ("cpu,cuda:0", True), ("cpu", False), ("cpu,cpu", False)])
@pytest.mark.parametrize("driver", [True, False])
def test_the_driver_starts_without_python_s_lock(monkeypatch: pytest.MonkeyPatch, spec: str, starts: bool, driver: bool) -> None:
    """ctypes lets go of it, and torch does not."""
    asked: list[Any] = []

    def load(name: str) -> Any:
        asked.append(name)
        if not driver:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return SimpleNamespace(cuInit=asked.append)

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    place(spec, lambda: [0])
    assert asked == (["libcuda.so.1", *([0] if driver else [])] if starts else [])


@pytest.mark.usefixtures("two_gpus")
def test_where_nobody_knows_which_gpu_is_free_the_first_one_is_taken_and_the_log_says_so() -> None:
    placement = place("auto", lambda: None)
    assert [str(device) for device in placement.devices] == ["cuda:0"]
    assert [notice.text for notice in placement.notices] == ["Training on cuda:0: the NVIDIA driver does not say how much memory is free."]
    assert not place("auto:all", lambda: None).notices


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("spec", "capabilities", "devices", "notice"),
    [
        (
            "auto",
            [(9, 0), (3, 5)],
            ["cuda:0"],
            "Training on cuda:0: this torch has no kernels for cuda:1; `tuitrain doctor` says which one has.",
        ),
        ("auto", [(3, 5), (9, 0)], ["cuda:1"], None),
        ("auto:all", [(3, 5), (9, 0)], ["cuda:1"], "this torch has no kernels for cuda:0"),
        ("auto:2", [(3, 5), (9, 0)], ["cuda:1"], "Training on cuda:1: auto:2 asks for 2 GPUs, and torch can use no more."),
        ("auto", [(3, 5), (3, 5)], ["cuda:1"], None),
        ("cuda:0", [(3, 5), (9, 0)], ["cuda:0"], None),
    ],
)
def test_a_card_without_kernels_in_this_torch_is_not_taken_where_another_has_them(
    monkeypatch: pytest.MonkeyPatch, spec: str, capabilities: list[tuple[int, int]], devices: list[str], notice: str | None
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", capabilities.__getitem__)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    placement = place(spec, lambda: [1, 0])
    assert [str(device) for device in placement.devices] == devices
    # Of those that were waited for no other one is taken instead.
    assert [str(device) for device in place("auto", lambda: [0]).devices] == ["cuda:0"]
    said = " ".join(notice.text for notice in placement.notices)
    assert notice in said if notice else not said


@pytest.mark.usefixtures("two_gpus")
def test_a_card_that_does_not_say_what_it_is_may_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(ordinal: int) -> tuple[int, int]:
        raise RuntimeError("CUDA unknown error")

    monkeypatch.setattr(torch.cuda, "get_device_capability", fails)
    assert [str(device) for device in place("auto", lambda: [1, 0]).devices] == ["cuda:1"]


@pytest.mark.parametrize("spec", ["auto:all", "auto:2", "auto"])
def test_cards_in_mig_mode_count_as_the_one_instance_that_cuda_gives(monkeypatch: pytest.MonkeyPatch, spec: str) -> None:
    """Before CUDA has started, torch's own number is that of NVML's cards."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    monkeypatch.setattr(torch._C, "_cuda_getDeviceCount", lambda: 1, raising=False)
    assert [str(device) for device in place(spec, lambda: [0]).devices] == ["cuda:0"]
    with pytest.raises(ConfigError, match=r"device: 'cuda:1' is not there: torch sees 1 GPU \(cuda:0\)"):
        place("cuda:1", list)


@pytest.mark.usefixtures("two_gpus")
def test_a_gpu_that_is_not_there_says_which_are() -> None:
    with pytest.raises(ConfigError, match=r"device: 'cuda:7' is not there: torch sees 2 GPUs \(cuda:0 to cuda:1\)"):
        place("cuda:7", lambda: [])


@pytest.mark.usefixtures("two_gpus")
def test_of_several_gpus_the_one_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match=r"device: 'cuda:2' is not there: torch sees 2 GPUs \(cuda:0 to cuda:1\)"):
        place("cuda:0,cuda:1,cuda:2", lambda: [])


def test_a_gpus_ordinals_are_not_asked_for_a_named_device(no_gpu: Any) -> None:
    def never() -> list[int]:
        raise AssertionError

    assert str(place("cpu", never).device) == "cpu"


class Plain(nn.Sequential):
    """A network's class as people write it: what it takes is no configuration, and it can do without."""

    def __init__(self, num_classes: int = CLASSES) -> None:
        super().__init__(nn.Flatten(), nn.Linear(192, num_classes))


class OfConfig(Plain):
    def __init__(self, config: RunConfig | None = None) -> None:
        super().__init__(CLASSES + (0 if config is None else config.batch_size))


def make_bare() -> nn.Module:
    return Plain()


def make_by_name(*, num_classes: int = CLASSES) -> nn.Module:
    return Plain(num_classes)


def make_optional(config: RunConfig | None = None) -> nn.Module:
    return OfConfig(config)


def make_told(num_classes: int) -> nn.Module:
    return Plain(num_classes)


def make_with_both(config: RunConfig, num_classes: int) -> nn.Module:
    return Plain(num_classes + 8 - config.batch_size)


def make_of_anything(*num_classes: Any) -> nn.Module:
    return Plain(CLASSES + len(num_classes))


class Heir(Plain):
    """Passes on what it is given, as classes do that add to another one."""

    def __init__(self, *, small: bool = True, **rest: Any) -> None:
        super().__init__(**rest)
        self.small = small


class Alone(nn.Sequential):
    """Takes any names, and does nothing with them."""

    def __init__(self, **rest: Any) -> None:
        super().__init__(nn.Flatten(), nn.Linear(192, CLASSES + len(rest)))


def make_as_torchvision_does(*, weights: Any = None, progress: bool = True, **rest: Any) -> Plain:
    return Plain(**rest)


def make_as_timm_does(pretrained: bool = False, **rest: Any) -> Heir:
    return Heir(small=not pretrained, **rest)


def make_without_a_word(**rest: Any):  # type: ignore[no-untyped-def]
    return Alone(**rest)


def make_of_a_lost_name(**rest: Any) -> Lost:  # type: ignore[name-defined]  # noqa: F821
    return Alone(**rest)


def make_with_a_value(depth: int = 1) -> nn.Module:
    return Plain(depth)


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        ("Plain", CLASSES),
        ("make_bare", CLASSES),
        ("make_by_name", CLASSES),
        ("make_with_a_value", 1),
        ("OfConfig", CLASSES + 8),
        ("make_optional", CLASSES + 8),
    ],
)
def test_a_network_that_takes_nothing_is_called_with_nothing(name: str, scores: int) -> None:
    assert build_model(small_config(model=f"test_models:{name}"))(torch.zeros(2, 192)).shape == (2, scores)


@pytest.mark.parametrize(
    ("name", "scores"),
    [
        *[(name, 7) for name in ("Plain", "make_by_name", "make_told", "make_with_both")],
        *[(name, 7) for name in ("Heir", "make_as_torchvision_does", "make_as_timm_does")],
        *[(name, CLASSES) for name in ("make_bare", "Alone", "make_without_a_word", "make_of_a_lost_name")],
        ("make_of_anything", CLASSES + 1),
        ("make_with_a_value", 1),
    ],
)
def test_a_network_that_asks_for_the_number_of_classes_is_told(name: str, scores: int) -> None:
    assert build_model(small_config(model=f"test_models:{name}"), 7)(torch.zeros(2, 192)).shape == (2, scores)


def make_data() -> Any:
    return engine_small.make_images(None)


@pytest.mark.parametrize(
    ("model", "data", "noted", "takes_config"),
    [
        ("test_models:make_bare", "test_models:make_data", {"model_called_with": "", "data_called_with": ""}, False),
        ("test_models:make_bare", "engine_small:make_images", {"model_called_with": ""}, True),
        ("engine_small:make_net", "test_models:make_data", {"data_called_with": ""}, True),
        ("test_models:Plain", "test_models:make_data", {"model_called_with": "num_classes", "data_called_with": ""}, False),
        ("test_models:make_with_both", "engine_small:make_images", {"model_called_with": "config, num_classes"}, True),
        ("test_models:make_as_timm_does", "test_models:make_data", {"model_called_with": "num_classes", "data_called_with": ""}, False),
    ],
)
def test_the_script_of_a_run_calls_its_functions_as_the_run_did(
    tmp_path: Path, model: str, data: str, noted: dict[str, str], takes_config: bool
) -> None:
    config = small_config(model=model, data=data, precision="fp64", max_steps=5)
    control = FakeControl(tmp_path)
    run(config, control)
    assert {field: names for field, names in control.environment.items() if field.endswith("_called_with")} == noted
    text, losses, evals = exported(config, tmp_path / "again")
    assert ("SimpleNamespace(" in text, "import SimpleNamespace" in text) == (takes_config, takes_config)
    compare(executed(text), losses, evals, 1e-9, 0.0)


def test_a_script_of_what_nobody_has_tried_says_how_else_a_network_may_be_made() -> None:
    text = export.script(small_config(model="engine_small:make_net"))
    assert "model = make_model(config).to(device, torch.float32)  # without config, or with num_classes, where it takes that" in text
