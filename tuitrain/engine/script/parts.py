"""The parts of an exported script. What it computes is what the run did; what it reads like is a tutorial."""

from __future__ import annotations

import inspect

import msgspec

from tuitrain.config import LOSSES, RunConfig, own_functions
from tuitrain.engine.augment import crop_flip
from tuitrain.engine.batches import SPREAD
from tuitrain.engine.models import BUILT_IN, takes_rows
from tuitrain.engine.outputs import logits, named_logits, tensors
from tuitrain.engine.own.arguments import CONFIG, MODEL, NOT_CALLED, NUM_CLASSES
from tuitrain.engine.script import data, loss, optimizer, ranks, speedrun
from tuitrain.engine.script.devices import device_lines, replica_lines, scores, scores_of, split_function
from tuitrain.engine.script.facts import Facts
from tuitrain.engine.script.imports import OWN_NETWORK, asks_for_config, imports, own_imports
from tuitrain.engine.script.weights import weights_functions, weights_lines
from tuitrain.import_strings import is_import_string
from tuitrain.text import clean


def header(config: RunConfig, facts: Facts) -> str:
    """Title, imports and device."""
    on_gpu = "cuda" in config.device
    lines = [f"# {clean(config.title())}: a training run in plain PyTorch, exported by tuitrain."]
    if facts.trained_before:
        lines += [
            f"# It had trained with {clean(facts.trained_before)}.",
            "# Here all is done as it went on after that, so the numbers are not quite the run's.",
        ]
    if config.strategy == "ddp":
        lines += ranks.run_lines(config)
    lines += ["", *imports(config, facts), ""]
    lines += [f"seed = {config.seed}", *device_lines(config)]
    if on_gpu and config.deterministic:
        lines.append("torch.backends.cudnn.deterministic = True  # the same seed gives the same losses")
    if on_gpu and config.precision == "tf32":
        lines.append('torch.set_float32_matmul_precision("high")  # products of matrices in TF32')
    if not on_gpu and facts.threads is not None:
        lines.append(f"torch.set_num_threads({facts.threads})  # another number of threads rounds sums differently")
    if asks_for_config(facts.given):
        fields = "".join(f"    {field}={value!r},\n" for field, value in msgspec.structs.asdict(config).items())
        lines += ["", "# What your own functions are called with.", f"config = SimpleNamespace(\n{fields})"]
    if own_functions(config):
        lines += ["", *_seed(config)]
    if facts.network_stands:
        others = {field: value for field, value in own_functions(config).items() if field != "model"}
        own = own_imports(others, facts)
        lines += ["", "# Your own code, after the seed: importing it makes the network.", *sorted(own)] if own else []
    return "\n".join(lines)


def data_part(config: RunConfig, facts: Facts) -> str:
    """The data set: what `data.loading` leaves."""
    what, code = data.loading(config, facts)
    return _title(f"data: {what}") + code


def model_part(config: RunConfig, facts: Facts) -> str:
    """The network on its device, loss and optimizer."""
    built_in, kind = BUILT_IN.get(config.model), facts.kind
    # A built-in model is made in float32.
    dtype = ", torch.float64" if config.precision == "fp64" else ", torch.float32" if built_in is None else ""
    lines = [_title("model, loss and optimizer")]
    for function in weights_functions(config):
        lines[0] += f"{inspect.getsource(function)}\n\n"
    lines[0] += loss.source(config)
    classes = f"num_classes={data.num_classes(kind)}"
    if built_in is None:
        wanted = [{CONFIG: CONFIG, NUM_CLASSES: classes}[name] for name in facts.given["model"] if name != NOT_CALLED]
        call = OWN_NETWORK if facts.network_stands else f"make_model({', '.join(wanted)})"
    else:
        lines[0] += f"\n{inspect.getsource(built_in.make)}\n"
        wanted = [f"{name}={value!r}" for name, value in built_in.arguments(config, large=facts.large).items()]
        # By itself it has as many scores as the other data has classes.
        wanted += [classes] if kind in ("imagefolder", "custom") else []
        call = f"{built_in.make.__name__}({', '.join(wanted)})"
    untried = "  # without config, or with num_classes, where it takes that" if built_in is None and facts.contiguous is None else ""
    made = [_IMPORTED_HERE, *own_imports({"model": config.model}, facts)] if facts.network_stands else []
    lines += [*_seed(config), *made, f"model = {call}.to(device{dtype}){untried}"]
    in_channels_last = config.precision != "fp64" and not facts.contiguous
    wide: list[str] = []
    if in_channels_last and kind == "custom" and facts.several is None:
        images = "train_inputs.dim() == 4" if facts.scores is None else "are_images"
        wide = [f"if {images}:", *(f"    {line}" for line in _in_channels_last(own=built_in is None))]
    elif in_channels_last and kind not in ("random", "custom") and not takes_rows(config):
        wide = _in_channels_last(own=built_in is None)
    if wide and built_in is None and facts.contiguous is None:
        wide.insert(0, "# In this memory a .view() after a convolution may be refused; .reshape() does the same, and is not.")
    lines += wide
    lines += [*speedrun.fit_lines(config, data.scaling(kind)), *weights_lines(config)]
    moves, criterion = [f"optimizer = {optimizer.made(config, facts.given)}"], [f"criterion = {loss.criterion(config)}"]
    if MODEL in facts.given.get("optimizer", ()):
        moves[0] += "" if facts.contiguous is not None else "  # without config, where it takes none"
        # It gets the model itself, and not what stands for that on several devices.
        lines += [*moves, *replica_lines(config), *criterion]
    else:
        lines += [*replica_lines(config), *criterion, *moves]
    return "\n".join(lines)


def training_part(config: RunConfig, facts: Facts) -> str:
    """How a batch is made, the training loop, and the test at each epoch's end."""
    dtype = "torch.float64" if config.precision == "fp64" else "torch.float32"
    lines = [_title("training") + f"batch_size = {config.batch_size}", f"epochs = {config.epochs}"]
    if config.max_steps is not None:
        lines.append(f"max_steps = {config.max_steps}")
    lines += ["", "", *data.input_functions(facts), "def batch(inputs, labels, rows):"]
    lines += ['    """The samples in `rows`, on the device, ready for the model."""', *data.input_lines(config, facts, dtype)]
    if takes_rows(config):
        condition = "inputs = inputs.permute(0, 2, 3, 1).flatten(2)"
        rows = "  # a sequence of rows: red, green and blue of their pixels"
        lines += ["    if inputs.dim() == 4:", f"        {condition}{rows}"] if facts.kind == "custom" else [f"    {condition}{rows}"]
    if config.batch_dim:
        lines.append("    inputs = inputs.movedim(0, 1)  # the batch is the second axis")
    lines += [*loss.label_lines(config, facts.targets, dtype), "", ""]
    if config.augment == "crop-flip":
        lines += [inspect.getsource(crop_flip), ""]
    lines += speedrun.functions(config)
    if is_import_string(config.model):
        functions = (tensors, named_logits, logits) if config.loss in LOSSES else (named_logits, logits)
        lines += [line for function in functions for line in (inspect.getsource(function), "")]
    if config.strategy == "split":
        lines += [*split_function(config, facts), "", ""]
    elif config.strategy == "ddp":
        lines += [*ranks.functions(config, facts), "", ""]
    lines += [
        *speedrun.before_lines(config, data.train_count(facts.scores)),
        "step = 0",
        "for epoch in range(1, epochs + 1):",
        "    model.train()",
        *_epoch(config, facts),
    ]
    lines += speedrun.end_lines(config)
    if facts.has_test is not False:
        lines += ["", *_test(config, facts)]
    if config.max_steps is not None:
        lines += ["", "    if step == max_steps:", "        break"]
    if config.strategy == "ddp":
        lines += ["", *ranks.END_LINES]
    return "\n".join(lines)


def _epoch(config: RunConfig, facts: Facts) -> list[str]:
    lines, count = [], data.train_count(facts.scores)
    rows = "slice(start, start + batch_size)"
    if config.shuffle:
        rows = "order[start : start + batch_size]"
        lines.append(f"    generator = torch.Generator().manual_seed(seed * {SPREAD:_} + epoch)")
        lines.append(f"    order = torch.randperm({count}, generator=generator)")
    lines += speedrun.epoch_lines(config, count)
    given = f"train_inputs, train_labels, {rows}"
    if facts.scores is not None:
        order = "order" if config.shuffle else f"torch.arange({count})"
        lines.append(f"    samples = read(train, epoch, [part.tolist() for part in {order}.split(batch_size)])")
        given = "*next(samples), slice(None)"
    lines += [f"    for start in range(0, {count}, batch_size):", "        step += 1", f"        inputs, labels = batch({given})"]
    if config.augment == "crop-flip":
        lines.append(f"        inputs = crop_flip(inputs, seed * {SPREAD:_} + step)")
    lines += speedrun.augment_lines(config, rows)
    if config.augment != "none" and facts.contiguous:
        lines.append("        inputs = inputs.contiguous()")
    lines += speedrun.step_lines(config)
    if config.strategy == "split":
        lines += _SPLIT_UPDATE
    elif config.strategy == "ddp":
        lines += ranks.step_lines(config, _forward(config, facts, " " * 8))
    else:
        lines += [*_forward(config, facts, " " * 8), "", *_UPDATE]
    lines = [*optimizer.clipped(config, lines), *speedrun.update_lines(config)]
    return [*lines, "        if step == max_steps:", "            break"] if config.max_steps is not None else lines


def _test(config: RunConfig, facts: Facts) -> list[str]:
    # DistributedDataParallel talks to the other ranks, which do not test; the model inside of it does not.
    model = "model.module" if config.strategy == "ddp" else "model"
    score = model
    if config.precision == "bf16" or is_import_string(config.model):
        call = f"logits({model}(images))" if is_import_string(config.model) else f"{model}(images)"
        score = f"lambda images: {call}{'.float()' if config.precision == 'bf16' else ''}"
    views = f"six_views({score}, inputs)" if config.tta else None
    outputs = views or scores(config, model, "inputs", facts)
    lines = [*_TEST_BEFORE, *_forward(config, facts, " " * 12, outputs), _TEST_LOSS]
    if facts.targets == "numbers":
        lines += ['    print(f"epoch {epoch} test loss {mean} (sum over batches {loss_sum})")']
    else:
        has_all = config.loss not in LOSSES and is_import_string(config.model)
        given = scores_of("outputs", classes_last=facts.classes_last) if has_all else "outputs"
        lines += [f"            right += ({given}.argmax(1) == labels).sum().item()", loss.told(facts.targets)]
    if facts.has_test is None:
        lines = ["    if test is not None:", *(f"    {line}" for line in lines)]
    return ranks.on_rank_0(lines) if config.strategy == "ddp" else lines


def _forward(config: RunConfig, facts: Facts, indent: str, outputs: str | None = None) -> list[str]:
    lines = [f"outputs = {outputs or scores(config, 'model', 'inputs', facts)}"]
    if config.precision == "bf16" and config.strategy != "dp":
        lines = ["with torch.autocast(device.type, torch.bfloat16):", f"    {lines[0]}"]
    if config.output_device is not None:
        lines.append("labels = labels.to(outputs.device)")
    lines.append(f"loss = criterion({'outputs.float()' if config.precision == 'bf16' and config.loss in LOSSES else 'outputs'}, labels)")
    return [indent + line for line in lines]


def _in_channels_last(*, own: bool) -> list[str]:
    why = "  # faster: the colours of a pixel side by side in memory"
    if not own:
        return [f"model = model.to(memory_format=torch.channels_last){why}"]
    # Where a tensor has five axes, the model's own `to` would fail.
    move = "        tensor.data = tensor.data.to(memory_format=torch.channels_last)"
    return [f"for tensor in [*model.parameters(), *model.buffers()]:{why}", "    if tensor.dim() == 4:", move]


def _seed(config: RunConfig) -> list[str]:
    own = ["random.seed(seed)", "np.random.seed(seed)"] if own_functions(config) else []
    return [*own, "torch.manual_seed(seed)"]


def _title(text: str) -> str:
    return f"# -- {text} " + "-" * (61 - len(text)) + "\n\n"


_IMPORTED_HERE = "# After the seed: importing it makes the network."

_UPDATE = (
    "        optimizer.zero_grad()",
    "        loss.backward()",
    "        optimizer.step()",
    '        print(f"step {step} loss {loss.item()}")',
)

_SPLIT_UPDATE = (
    "",
    "        optimizer.zero_grad()",
    "        loss = forward_and_backward(inputs, labels)",
    "        optimizer.step()",
    '        print(f"step {step} loss {loss.item()}")',
)

_TEST_BEFORE = (
    "    # How good is the model on samples that it was not trained on?",
    "    model.eval()",
    "    mean, loss_sum, right = 0.0, 0.0, 0",
    "    with torch.no_grad():",
    "        for start in range(0, len(test_labels), batch_size):",
    "            inputs, labels = batch(test_inputs, test_labels, slice(start, start + batch_size))",
)

_TEST_LOSS = "            mean, loss_sum = mean + loss.item() * len(labels) / len(test_labels), loss_sum + loss.item()"
