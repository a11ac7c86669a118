"""The configuration: what is allowed, what is said when it is not, and TOML in and out."""

from __future__ import annotations

import re
from pathlib import Path

import click
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuitrain.cli.training import run
from tuitrain.config import DEFAULTS, FIELDS, RECIPES, ConfigError, RunConfig, allowed, check_field, parse_device, with_changes
from tuitrain.elsewhere import BY_ITS_VALUE, CALLED_ELSEWHERE
from tuitrain.events import PUBLIC, Step
from tuitrain.recipes import command_line, load_recipe, recipe_for, recipe_summary, recipe_text, to_toml
from tuitrain.text import clean, clean_lines

CONTRACT_FIELDS = (
    "recipe model weights data image_size device output_device strategy epochs max_steps batch_size loss label_smoothing optimizer lr "
    "momentum nesterov weight_decay max_grad_norm lr_schedule warmup_steps averaging shuffle augment tta target_accuracy dropout seed "
    "deterministic precision compile batch_dim even_split log_every_steps checkpoint_every_steps checkpoint_every_minutes "
    "keep_checkpoints max_restarts nnodes rdzv_endpoint name note on_end"
).split()


def test_the_fields_are_those_of_the_contract() -> None:
    assert list(FIELDS) == CONTRACT_FIELDS


def test_what_other_programs_call_a_field_is_none_here() -> None:
    assert set(CALLED_ELSEWHERE.values()) <= set(FIELDS)
    assert not set(CALLED_ELSEWHERE) & set(FIELDS)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("patience", "The best checkpoint is kept whatever comes after it;"),
        ("ddp", "It is the value of a field: --set strategy=ddp."),
        ("no_cuda", "It is the value of a field: --set device=cpu."),
        ("half", "Of 16 bits there is precision=bf16,"),
        ("imgsz", "Did you mean 'image_size'?"),
        ("warmup-epochs", "Did you mean 'warmup_steps'?"),
        ("gamma", "A schedule of your own does so: --set lr_schedule=MODULE:NAME."),
    ],
)
def test_a_field_of_other_programs_is_told_how_it_is_done_here(said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        with_changes(DEFAULTS, {said: "1"}, from_text=True)
    assert str(error.value).startswith(f"{said}: there is no such field. {hint}")


@pytest.mark.parametrize("value", BY_ITS_VALUE.values())
def test_a_value_that_is_named_in_the_place_of_a_field_is_one(value: str) -> None:
    field, _, of_field = value.partition("=")
    with_changes(DEFAULTS, {field: of_field}, from_text=True)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("fp16", "Of 16 bits there is precision=bf16, in which no loss has to be scaled."),
        ("16-mixed", "Of 16 bits there is precision=bf16, in which no loss has to be scaled."),
        ("bfloat16", "Did you mean 'bf16'?"),
        ("float32", "Did you mean 'fp32'?"),
        ("double", "Did you mean 'fp64'?"),
        ("fp23", "Did you mean 'fp32'?"),
    ],
)
def test_a_precision_by_another_name_is_told_by_ours(said: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        check_field("precision", said)
    assert str(error.value) == f"precision: '{said}' is not allowed; it must be one of fp32, bf16, fp64, tf32. {hint}"


def test_the_readme_tells_what_every_field_allows_and_is_without_it() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").partition("### Every field")[2].partition("\n## ")[0]
    rows = [[cell.replace("`", "").strip() for cell in line.split("|")[1:4]] for line in text.splitlines()]
    told = {field: (value, default) for field, value, default in (row for row in rows if len(row) == 3 and row[0] in FIELDS)}

    def in_words(value: object) -> str:
        return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    assert list(told) == list(FIELDS)
    assert told == {field: (allowed(field).removeprefix("one of "), in_words(getattr(DEFAULTS, field))) for field in FIELDS}


def test_the_readme_names_every_event_and_the_numbers_of_a_step() -> None:
    text = (
        (Path(__file__).parents[2] / "README.md")
        .read_text(encoding="utf-8")
        .partition("The events of `--json` are ")[2]
        .partition("\n\n")[0]
    )
    named = set(re.findall(r"`(\w+)`", text))
    assert {event.__struct_config__.tag for event in PUBLIC} <= named
    assert set(Step.__struct_fields__) | {"loss_sum", "accuracy", "path", "kind", "state", "error"} <= named
    fields = {field for event in PUBLIC for field in event.__struct_fields__}
    assert named <= fields | {event.__struct_config__.tag for event in PUBLIC} | {"null"}


@pytest.mark.parametrize("width", [60, 80])
def test_the_help_of_run_says_of_every_field_what_it_allows(width: int) -> None:
    text = run.get_help(click.Context(run, info_name="run", terminal_width=width)).partition("Fields:\n")[2]
    assert max(map(len, text.splitlines())) <= width
    assert text.split() == [word for field in FIELDS for word in (field, *allowed(field).split())]


def test_seed_cnn_is_what_the_seed_material_fixes() -> None:
    config = load_recipe("seed-cnn")
    assert (config.model, config.batch_size, config.shuffle, config.optimizer, config.lr, config.epochs) == (
        "seed-cnn",
        64,
        False,
        "sgd",
        0.01,
        10,
    )
    assert (config.loss, config.momentum, config.weight_decay) == ("cross_entropy", 0.0, 0.0)


def test_multi_gpu_is_what_the_seed_material_fixes() -> None:
    config = load_recipe("multi-gpu")
    assert config.title() == "multi-gpu"
    assert (config.model, config.batch_size, config.shuffle, config.optimizer, config.lr, config.epochs) == (
        "seed-cnn",
        64,
        True,
        "adam",
        0.001,
        10,
    )


@pytest.mark.parametrize("model", ["rnn", "transformer"])
def test_a_batch_first_twin_differs_in_nothing_else(model: str) -> None:
    first, twin = load_recipe(model), load_recipe(f"{model}-batch-first")
    assert (first.model, first.batch_dim, twin.batch_dim) == (model, 1, 0)
    assert msgspec.structs.replace(twin, recipe=model, batch_dim=1) == first


def test_random_linear_is_what_the_seed_material_fixes() -> None:
    config = load_recipe("random-linear")
    assert (config.model, config.data, config.batch_size, config.epochs, config.shuffle, config.lr) == (
        "linear",
        "random",
        30,
        1,
        False,
        0.01,
    )


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_says_in_one_line_what_it_is(name: str) -> None:
    assert 10 < len(recipe_summary(recipe_text(name))) <= 90


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("lr", "1e-3", 1e-3),
        ("lr", ".5", 0.5),
        ("lr", "1.", 1.0),
        ("lr", "+0.1", 0.1),
        ("lr", "+.5e-2", 0.005),
        ("momentum", ".9", 0.9),
        ("target_accuracy", ".6", 0.6),
        ("epochs", "+5", 5),
        ("epochs", "05", 5),
        ("max_steps", "+300", 300),
        ("name", "+.5", "+.5"),
        ("epochs", str(2**53), 2**53),
        ("epochs", " 3 ", 3),
        ("max_steps", "None", None),
        ("max_steps", "300", 300),
        ("shuffle", "true", True),
        ("precision", "bf16", "bf16"),
        ("name", "null", "null"),
        ("name", "7", "7"),
        ("name", " my net ", "my net"),
        ("note", "  ", ""),
        ("data", "/some/folder", "/some/folder"),
        ("model", "nets.small:make_model", "nets.small:make_model"),
        ("on_end", "echo $TUITRAIN_RUN >> done.txt", "echo $TUITRAIN_RUN >> done.txt"),
        ("on_end", "none", None),
    ],
)
def test_a_typed_value_becomes_the_fields_type(field: str, text: str, value: object) -> None:
    assert getattr(with_changes(DEFAULTS, {field: text}, from_text=True), field) == value


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        ("lr", "nan", "lr: 'nan' is not allowed; it must be a number above 0."),
        ("lr", "inf", "lr: 'inf' is not allowed; it must be a number above 0."),
        ("lr", "-1", "lr: '-1' is not allowed; it must be a number above 0."),
        ("lr", "0", "lr: '0' is not allowed; it must be a number above 0."),
        ("lr", "-.5", "lr: '-.5' is not allowed; it must be a number above 0."),
        ("lr", "+-1", "lr: '+-1' is not allowed; it must be a number above 0."),
        ("lr", "+inf", "lr: '+inf' is not allowed; it must be a number above 0."),
        ("lr", ".", "lr: '.' is not allowed; it must be a number above 0."),
        ("lr", "0x5", "lr: '0x5' is not allowed; it must be a number above 0."),
        ("lr", "1_0", "lr: '1_0' is not allowed; it must be a number above 0."),
        ("lr", "1e400", "lr: '1e400' is not allowed; it must be a number above 0, up to 1e+38."),
        ("weight_decay", "1e300", "weight_decay: '1e300' is not allowed; it must be a number from 0 to 1e+38."),
        (
            "checkpoint_every_minutes",
            "1e400",
            "checkpoint_every_minutes: '1e400' is not allowed; it must be a number above 0, up to 1.7976931348623157e+308.",
        ),
        ("lr", "Fast", "lr: 'Fast' is not allowed; it must be a number above 0."),
        ("weight_decay", "nan", "weight_decay: 'nan' is not allowed; it must be a number of 0 or more."),
        ("epochs", "0", "epochs: '0' is not allowed; it must be a whole number of 1 or more."),
        ("epochs", "2.5", "epochs: '2.5' is not allowed; it must be a whole number of 1 or more."),
        ("batch_size", "-64", "batch_size: '-64' is not allowed; it must be a whole number of 1 or more."),
        (
            "epochs",
            "4611686018427387904",
            "epochs: '4611686018427387904' is not allowed; it must be a whole number from 1 to 9,007,199,254,740,992.",
        ),
        (
            "max_steps",
            "9007199254740993",
            "max_steps: '9007199254740993' is not allowed; it must be a whole number from 1 to 9,007,199,254,740,992, or none.",
        ),
        ("batch_size", "1e17", "batch_size: '1e17' is not allowed; it must be a whole number from 1 to 9,007,199,254,740,992."),
        ("max_restarts", "99999999999", "max_restarts: '99999999999' is not allowed; it must be a whole number from 0 to 2,147,483,648."),
        ("max_restarts", "-1", "max_restarts: '-1' is not allowed; it must be a whole number of 0 or more."),
        ("seed", "4294967296", "seed: '4294967296' is not allowed; it must be a whole number from 0 to 4294967295."),
        ("seed", "-1", "seed: '-1' is not allowed; it must be a whole number from 0 to 4294967295."),
        ("shuffle", "yes", "shuffle: 'yes' is not allowed; it must be true or false."),
        ("lerning_rate", "1", f"lerning_rate: there is no such field. It must be one of {', '.join(FIELDS)}."),
        ("learning_rate", "1", "learning_rate: there is no such field. Did you mean 'lr'?"),
        ("Grad-Clip", "1", "Grad-Clip: there is no such field. Did you mean 'max_grad_norm'?"),
        (
            "accumulate_grad_batches",
            "4",
            "accumulate_grad_batches: there is no such field. A batch is taken in parts where a device is named several times, as in "
            "device=cuda:0,cuda:0 with strategy=split.",
        ),
        ("epoch", "1", "epoch: there is no such field. Did you mean 'epochs'?"),
        ("", "1", "'=1' names no field; it must be FIELD=VALUE, like lr=0.01."),
        ("", "\x1b", "'=·' names no field; it must be FIELD=VALUE, like lr=0.01."),
        ("epochs", "5\udcff", "epochs: '5·' is not allowed; it must be a whole number of 1 or more."),
        ("strategy", "\udcff", "strategy: '·' is not allowed; it must be one of auto, single, dp, split, ddp."),
        ("nnodes", "\u0661", "nnodes: '\u0661' is not allowed; it must be a number of machines, or a range MIN:MAX."),
        ("on_end", " ", "on_end: '' is not allowed; it must be a shell command, or none."),
        ("on_end", "a\nb", "on_end: 'a·b' holds control characters; it must be a shell command, or none."),
        ("strategy", "spilt", "strategy: 'spilt' is not allowed; it must be one of auto, single, dp, split, ddp. Did you mean 'split'?"),
    ],
)
def test_a_wrong_value_gets_one_sentence(field: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as error:
        with_changes(DEFAULTS, {field: text}, from_text=True)
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("field", "text", "meant"),
    [
        ("optimizer", "adm", "adam"),
        ("optimizer", "AdamW", "adamw"),
        ("optimizer", "rmsprop", "torch.optim:RMSprop"),
        ("optimizer", "torch.optim.RMSprop", "torch.optim:RMSprop"),
        ("loss", "rmsprop", None),
        ("loss", "torch.nn.HuberLoss", "torch.nn:HuberLoss"),
        ("model", "nets.deep.Net", "nets.deep:Net"),
        ("model", "nets.3", None),
        ("model", "ResNet50", "torchvision.models:resnet50"),
        ("model", "vit_b_16", "torchvision.models:vit_b_16"),
        ("model", "mnasnet0_75", "torchvision.models:mnasnet0_75"),
        ("model", "ResNet18", "resnet18"),
        ("model", "vgg", None),
        ("loss", "vgg16", None),
    ],
)
def test_what_may_be_an_import_string_too(field: str, text: str, meant: str | None) -> None:
    with pytest.raises(ConfigError) as error:
        with_changes(DEFAULTS, {field: text}, from_text=True)
    hint = "" if meant is None else f" Did you mean '{meant}'?"
    assert str(error.value) == f"{field}: '{text}' is not known; it must be {allowed(field)}.{hint}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"device": "cuda:0,cuda:1", "strategy": "single"}, ["strategy", "single", "cuda:0,cuda:1", "split"]),
        ({"device": "auto:2", "strategy": "single"}, ["strategy", "single", "auto:2", "split"]),
        ({"device": "cpu", "strategy": "dp"}, ["strategy", "dp", "'cpu'", "use split"]),
        ({"device": "cuda:0,cpu", "strategy": "dp"}, ["strategy", "dp", "cuda:0,cpu", "use split"]),
        ({"device": "cuda,cuda:0", "strategy": "dp"}, ["strategy", "dp", "each GPU once", "cuda,cuda:0", "use split"]),
        ({"device": "cuda:0,cuda:1", "strategy": "dp", "compile": "true"}, ["compile", "dp", "use split"]),
        ({"device": "cuda:0,cuda:1", "strategy": "split", "output_device": "cuda:1"}, ["output_device", "cuda:1", "dp"]),
        ({"device": "auto:2", "output_device": "cuda:1"}, ["output_device", "cuda:1", "dp"]),
        ({"device": "gpu"}, ["device", "gpu", "cuda:N"]),
        ({"device": "auto:two"}, ["device", "auto:two", "auto:N", "auto:all"]),
        ({"device": "cuda:01"}, ["device", "cuda:01", "cuda:N"]),
        ({"device": "cuda:\u0661"}, ["device", "cuda:\u0661", "cuda:N"]),
        ({"device": "cpu", "output_device": "cuda:1"}, ["output_device", "cuda:1", "cpu"]),
        ({"nnodes": "2", "strategy": "ddp"}, ["nnodes", "2", "rdzv_endpoint=HOST:PORT"]),
        ({"nnodes": "2", "rdzv_endpoint": "box:1"}, ["nnodes", "ddp", "auto"]),
        ({"nnodes": "2:1"}, ["nnodes", "2:1", "MIN:MAX"]),
        ({"nnodes": "0"}, ["nnodes", "0"]),
        ({"rdzv_endpoint": "box:29500"}, ["rdzv_endpoint", "box:29500", "nnodes"]),
        ({"rdzv_endpoint": "box:99999"}, ["rdzv_endpoint", "HOST:PORT"]),
        ({"rdzv_endpoint": "host"}, ["rdzv_endpoint", "HOST:PORT"]),
        ({"rdzv_endpoint": ":29500"}, ["rdzv_endpoint", "HOST:PORT"]),
        ({"rdzv_endpoint": "box:2a"}, ["rdzv_endpoint", "HOST:PORT"]),
        ({"optimizer": "adam", "momentum": "0.9"}, ["momentum", "0.9", "sgd"]),
        ({"momentum": "0", "nesterov": "true"}, ["nesterov: true", "momentum"]),
        ({"warmup_steps": "5", "lr_schedule": "triangle"}, ["warmup_steps", "5", "triangle", "0"]),
        ({"loss": "nll", "label_smoothing": "0.1"}, ["label_smoothing", "0.1", "cross_entropy", "nll"]),
        ({"model": "seedcnn"}, ["model", "seedcnn", "Did you mean 'seed-cnn'?"]),
    ],
)
def test_what_does_not_go_together_is_refused_with_both_names(changes: dict[str, str], words: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        with_changes(DEFAULTS, changes, from_text=True)
    assert all(word in str(error.value) for word in words)


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "cpu,cpu,cpu"},
        {"device": "cpu,cpu", "strategy": "split"},
        {"device": "cpu", "strategy": "split"},
        {"device": "cuda:1,cpu,cuda:1", "strategy": "split", "even_split": "true"},
        {"device": "cuda,cuda:1", "strategy": "dp", "output_device": "cuda:1"},
        {"device": "auto:2", "strategy": "dp"},
        {"device": "auto:all"},
        {"device": "auto:all", "strategy": "single"},
        {"device": "cpu, cpu"},
        {"device": "cuda:0", "output_device": "cuda:0"},
        {"device": "cpu,cpu", "strategy": "split", "compile": "true"},
        {"nnodes": "1:2", "rdzv_endpoint": "box:29500", "strategy": "ddp"},
        {"nnodes": "2", "rdzv_endpoint": "box:29500", "strategy": "ddp"},
        {"warmup_steps": "5", "lr_schedule": "cosine", "max_grad_norm": "1.0"},
        {"momentum": "0.9", "nesterov": "true", "label_smoothing": "0.1"},
    ],
)
def test_what_goes_together(changes: dict[str, str]) -> None:
    changed = with_changes(DEFAULTS, changes, from_text=True)
    assert {field: str(getattr(changed, field)).lower() for field in changes} == changes


@given(st.sampled_from(FIELDS), st.text(max_size=12))
def test_no_text_in_any_field_does_worse_than_a_config_error(field: str, text: str) -> None:
    try:
        changed = with_changes(DEFAULTS, {field: text}, from_text=True)
        said = str(getattr(changed, field))
    except ConfigError as error:
        said = str(error)
    assert clean(said) == said


def test_control_characters_never_get_into_a_name() -> None:
    assert "\x1b" not in with_changes(DEFAULTS, {"name": "a\x1b[2Jb\u202e"}, from_text=True).name


def test_a_file_may_give_the_number_of_machines_as_a_number() -> None:
    several = {"rdzv_endpoint": "box:29500", "strategy": "ddp"}
    assert with_changes(DEFAULTS, {"nnodes": 2, **several}).nnodes == "2"
    for wrong in (0, -1, True, 1.5):
        with pytest.raises(ConfigError, match=r"nnodes: .* it must be a number of machines"):
            with_changes(DEFAULTS, {"nnodes": wrong, **several})


def test_a_file_is_told_the_upper_limit_too() -> None:
    with pytest.raises(ConfigError, match="from 1 to 9,007,199,254,740,992"):
        with_changes(DEFAULTS, {"epochs": 2**62})


def test_a_text_of_several_lines_keeps_them_and_nothing_that_a_terminal_obeys() -> None:
    assert clean_lines("Traceback:\n\tat x\nE: \x1b[31mred\r\x9b\u202e") == "Traceback:\n\tat x\nE: ·[31mred···"


def test_toml_out_and_in_again_is_the_same_configuration(tmp_path: Path) -> None:
    config = with_changes(load_recipe("multi-gpu"), {"max_steps": 7, "name": 'say "hi"', "lr": 3e-4})
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config, {"torch": "2.13.0", "threads": 2}), encoding="utf-8")
    assert load_recipe(str(path)) == config


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_is_none_stays_so_whatever_the_recipe_says(tmp_path: Path, recipe: str) -> None:
    nothing = dict.fromkeys((field for field in FIELDS if getattr(DEFAULTS, field) is None), "none")
    config = with_changes(load_recipe(recipe), nothing, from_text=True)
    path = tmp_path / "run.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    assert config.max_steps is None
    assert load_recipe(str(path)) == config


def test_a_run_toml_names_nothing_that_is_none_in_its_recipe_too() -> None:
    fields = [line.split(" = ")[0] for line in to_toml(DEFAULTS).splitlines()]
    assert fields == [field for field in FIELDS if getattr(DEFAULTS, field) is not None]


def test_a_toml_file_takes_a_value_of_its_recipe_away(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('recipe = "speedrun-94"\nmax_steps = "none"\nlr_schedule = "none"\n', encoding="utf-8")
    config = load_recipe(str(path))
    assert (config.max_steps, config.lr_schedule, config.target_accuracy) == (None, "none", 0.94)


def test_a_toml_file_starts_from_the_recipe_it_names(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('recipe = "multi-gpu"\nepochs = 2\n', encoding="utf-8")
    assert load_recipe(str(path)) == msgspec.structs.replace(load_recipe("multi-gpu"), epochs=2, name="mine")


@pytest.mark.parametrize(("line", "title"), [("", "mine"), ('name = "other"', "other"), ('name = ""', "multi-gpu")])
def test_a_toml_file_that_starts_from_a_recipe_is_called_by_its_own_name(tmp_path: Path, line: str, title: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'recipe = "multi-gpu"\n{line}\n', encoding="utf-8")
    config = load_recipe(str(path))
    assert (config.recipe, config.title()) == ("multi-gpu", title)
    (tmp_path / "run.toml").write_text(to_toml(config), encoding="utf-8")
    assert load_recipe(str(tmp_path / "run.toml")) == config


def test_a_toml_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "größer"\n', encoding="utf-8-sig")
    assert load_recipe(str(path)).name == "größer"


def test_a_toml_file_without_a_recipe_is_called_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('model = "my_nets:tiny"\n', encoding="utf-8")
    config = load_recipe(str(path))
    assert (config.recipe, config.title(), config.model) == ("custom", "mine", "my_nets:tiny")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("lr = nan", ["bad.toml", "lr", "number above 0"]),
        ("lr = 'x'", ["bad.toml", "lr", "'x'"]),
        ("lr = '0.1'", ["bad.toml", "lr", "'0.1'", "number above 0"]),
        ("name = 3", ["bad.toml", "name", "'3'", "text"]),
        ("lrr = 1", ["bad.toml", "lrr", "Did you mean 'lr'?"]),
        ("epochs = true", ["bad.toml", "epochs", "true"]),
        ("recipe = 'seed-cn'", ["bad.toml", "seed-cn", "it must be one of seed-cnn, ", "Did you mean 'seed-cnn'?"]),
        ("epochs = ", ["bad.toml", "TOML", "(at end of document)."]),
        ("device = ['cpu']", ["bad.toml", "device"]),
        ("environment = 3", ["bad.toml: environment: '3' is not allowed; it must be a table, [environment]"]),
        ("[[environment]]\nthreads = 3", ["bad.toml: environment: ", "is not allowed; it must be a table, [environment]"]),
        ("[train]\nepochs = 3", ["bad.toml", "[train] is a table, and a recipe has none", "like lr = 0.01"]),
        ("[optimizer]\nname = 'adam'", ["bad.toml", "[optimizer] is a table"]),
        ("epochs = 3\nepochs = 4\n", ["bad.toml", "a field is set twice", "line 2", ": epochs = 4."]),
        pytest.param(f"epochs = {'9' * 5000}", ["bad.toml", "TOML"], id="a number with 5000 digits"),
        pytest.param(f"lr = {'[' * 5000}", ["bad.toml", "TOML"], id="lists in lists"),
        ("lr = 1\r\nshuffle = True\r\n", ["bad.toml", "line 2", ": shuffle = True."]),
    ],
)
def test_a_wrong_toml_file_gets_one_sentence_that_names_it(tmp_path: Path, text: str, words: list[str]) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load_recipe(str(path))
    assert all(word in str(error.value) for word in words)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "mend"),
    [
        ("lr = '+.5'", "lr = 0.5"),
        ("max_steps = '2'", "max_steps = 2"),
        ("deterministic = 'false'", "deterministic = false"),
    ],
)
def test_a_value_in_quotes_that_would_do_without_them_is_told_so(tmp_path: Path, text: str, mend: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(f"In quotes it is text; write {mend}.") + "$"):
        load_recipe(str(path))
    path.write_text(mend, encoding="utf-8")
    load_recipe(str(path))


@pytest.mark.parametrize(("value", "mend"), [("3", 'name = "3"'), ("true", 'name = "true"'), ("0.50", 'name = "0.5"')])
def test_a_name_without_quotes_is_told_so(tmp_path: Path, value: str, mend: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"name = {value}", encoding="utf-8")
    with pytest.raises(ConfigError, match=re.escape(f"Text is in quotes: {mend}.") + "$"):
        load_recipe(str(path))
    path.write_text(mend, encoding="utf-8")
    assert load_recipe(str(path)).name


@pytest.mark.parametrize("text", ["lr = 'x'", "lr = '0'", "epochs = '1.5'", "deterministic = 'yes'", "name = [1]", "max_steps = ''"])
def test_quotes_are_not_blamed_for_what_is_wrong_without_them_too(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match="it must be") as error:
        load_recipe(str(path))
    assert "quotes" not in str(error.value)


def test_what_a_person_types_has_no_quotes_to_blame() -> None:
    with pytest.raises(ConfigError, match=re.escape("'\"0.1\"' is not allowed; it must be a number above 0.") + "$"):
        with_changes(load_recipe("seed-cnn"), {"lr": '"0.1"'}, from_text=True)


def test_an_unknown_recipe_and_a_missing_file_are_told_apart() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'seed-cnn'\?"):
        load_recipe("seed-cn")
    with pytest.raises(ConfigError, match=r"gone\.toml cannot be read: No such file"):
        load_recipe("gone.toml")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("my_nets:Net", "A network is given by --set model=my_nets:Net."),
        ("resnet50", "A network is given by --set model=torchvision.models:resnet50."),
        ("cifar10", "Data is given by --data cifar10."),
        ("fashion-mnist", "Data is given by --data torchvision.datasets:FashionMNIST."),
        ("resnet_18", "Did you mean 'resnet18'?"),
    ],
)
def test_a_network_in_the_place_of_a_recipe_is_told_its_field(name: str, hint: str) -> None:
    with pytest.raises(ConfigError) as error:
        load_recipe(name)
    assert str(error.value).endswith(f"or a TOML file. {hint}")


def test_a_run_without_a_recipe_is_called_by_its_network() -> None:
    assert recipe_for("my_nets:Net") == msgspec.structs.replace(DEFAULTS, name="Net")
    assert recipe_for("rnn").name == "rnn"


def test_a_file_that_is_no_text_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes("name = 'größer'".encode("latin-1"))
    with pytest.raises(ConfigError, match=r"mine\.toml cannot be read: it is not UTF-8 text\.$"):
        load_recipe(str(tmp_path / "mine.toml"))


def test_a_missing_recipe_file_is_told_the_nearest_recipe(tmp_path: Path) -> None:
    (tmp_path / "lenet.toml").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"lennet\.toml cannot be read: No such file or directory\. Did you mean '.*/lenet\.toml'\?"):
        load_recipe(str(tmp_path / "lennet.toml"))
    with pytest.raises(ConfigError, match=r"Did you mean 'seed-cnn'\?"):
        load_recipe("seed-cnn.toml")


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("gpu", "cuda"),
        ("gpu:1", "cuda:1"),
        ("0,1", "cuda:0,cuda:1"),
        ("cuda1", "cuda:1"),
        ("cuda:3-0,cpu", "cuda:0-3,cpu"),
        ("7-4", "cuda:4-7"),
        ("CPU", "cpu"),
        ("cpu,", "cpu"),
        ("cpu cpu", "cpu,cpu"),
    ],
)
def test_what_other_programs_call_a_device_is_told_its_name_here(spec: str, meant: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_device(spec)
    assert str(error.value).endswith(f" Did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("auto", 1), ("auto:2", 2), ("auto:all", None), ("cpu", ("cpu",)), ("cuda", ("cuda:0",)), ("cuda:1,cpu", ("cuda:1", "cpu"))],
)
def test_device_values(spec: str, expected: object) -> None:
    assert parse_device(spec) == expected


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "tuitrain run seed-cnn"),
        ({"lr": 0.1, "max_steps": 300}, "tuitrain run seed-cnn --max-steps 300 --lr 0.1"),
        ({"shuffle": True}, "tuitrain run seed-cnn --set shuffle=true"),
        ({"on_end": "echo 'a b'"}, """tuitrain run seed-cnn --set 'on_end=echo '"'"'a b'"'"''"""),
        ({"name": "two words", "data": "/a b"}, "tuitrain run seed-cnn --data '/a b' --name 'two words'"),
    ],
)
def test_the_equal_command_line(changes: dict[str, object], line: str) -> None:
    assert command_line(with_changes(load_recipe("seed-cnn"), changes)) == line


def test_every_field_can_be_written_on_the_command_line_it_gives() -> None:
    config = RunConfig(
        recipe="seed-cnn", shuffle=True, max_steps=5, momentum=0.5, augment="crop-flip", note="x y", checkpoint_every_steps=9
    )
    line = command_line(config)
    for part in ("--max-steps 5", "momentum=0.5", "augment=crop-flip", "'note=x y'", "checkpoint_every_steps=9"):
        assert part in line


def test_the_command_line_names_the_recipe_that_the_run_started_from() -> None:
    assert command_line(load_recipe("multi-gpu")) == "tuitrain run multi-gpu"


def test_the_command_line_of_a_recipe_of_ones_own_runs_too(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('model = "my_package.nets:make_model"\nlr = 0.5\n')
    config = load_recipe(str(tmp_path / "mine.toml"))
    assert command_line(config) == "tuitrain run --set model=my_package.nets:make_model --lr 0.5 --name mine"
    assert command_line(recipe_for("my_nets:Net")) == "tuitrain run seed-cnn --name Net"
    own = with_changes(recipe_for("my_nets:Net"), {"model": "my_nets:Net"})
    assert command_line(own) == "tuitrain run --set model=my_nets:Net"
    assert command_line(with_changes(own, {"name": ""})) == "tuitrain run --set model=my_nets:Net --name ''"
