"""The parts of an exported script that spread a batch over several devices: the split by hand, and nn.DataParallel."""

from __future__ import annotations

from tuitrain.config import LOSSES, RunConfig
from tuitrain.engine.script import ranks
from tuitrain.engine.script.facts import Facts
from tuitrain.import_strings import is_import_string


def is_numbered(config: RunConfig) -> bool:
    """Whether the run is on other GPUs than the first one, so that it matters how they are counted."""
    return any(name.startswith("cuda:") and name != "cuda:0" for name in ranks.names(config))


def device_lines(config: RunConfig) -> list[str]:
    """`device`, which holds the data and the parameters, and `devices` where there are replicas; the CPU where there is no GPU."""
    # Read when CUDA starts; by default the fastest GPU is the first one.
    order = ['os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the GPUs are numbered as in the run']
    return [*(order if is_numbered(config) else []), *_devices(config)]


def _devices(config: RunConfig) -> list[str]:
    if config.strategy == "ddp":
        return ranks.device_lines(config)
    wanted = ranks.names(config)
    on_gpu = any(name.startswith("cuda") for name in wanted)
    if config.strategy not in ("split", "dp"):
        chosen = f'"{wanted[0]}" if torch.cuda.is_available() else "cpu"' if on_gpu else '"cpu"'
        return [f"device = torch.device({chosen})", *_current(wanted[0])]
    listed = _list(wanted)
    if on_gpu:
        listed = f"{listed} if torch.cuda.is_available() else {_list(('cpu',) * len(wanted))}"
    first = "device = devices[0]  # it has the data, and the parameters that are updated"
    return [f"names = {listed}", "devices = [torch.device(name) for name in names]", first, *_current(wanted[0])]


def _current(first: str) -> list[str]:
    """As in the run: what torch does on the current GPU alone, as Adam does, would take memory on cuda:0."""
    if not first.startswith("cuda") or first == "cuda:0":
        return []
    return ['if device.type == "cuda":', "    torch.cuda.set_device(device)  # and nothing on cuda:0"]


def replica_lines(config: RunConfig) -> list[str]:
    """After `model` is on `device`: what stands for it there and elsewhere."""
    if config.strategy == "dp":
        return _data_parallel(config)
    lines = []
    if config.strategy == "split" and _is_spread(config):
        lines += [
            "# Replicas on the same device share one model; every other device has a copy.",
            "models = {where: model if where == device else copy.deepcopy(model).to(where) for where in devices}",
        ]
        if config.compile:
            lines += ["models = {where: torch.compile(replica, dynamic=False) for where, replica in models.items()}"]
            lines += ["model = models[device]"]
        return [*lines, "copies = [replica for replica in models.values() if replica is not model]"]
    lines = ["model = torch.compile(model, dynamic=False)"] if config.compile else []
    return [*lines, *ranks.replica_lines(config)] if config.strategy == "ddp" else lines


def needs_copy(config: RunConfig) -> bool:
    """Whether the script makes copies of the model."""
    return config.strategy == "split" and _is_spread(config)


def split_function(config: RunConfig, facts: Facts) -> list[str]:
    """One step's forward and backward over all replicas, as a function."""
    spread = _is_spread(config)
    replica = "models[where]" if spread else "model"
    parts = f"{ranks.chunked('len(devices)', f', dim={config.batch_dim}', facts)}, labels.chunk(len(devices))"
    moved = "part.to(where)" if facts.several is None else "[one.to(where) for one in part]"
    forward = [f"outputs = {scores(config, replica, 'part', facts)}"]
    outputs = "outputs"
    if config.precision == "bf16":
        kind = "where.type" if spread else "device.type"
        forward = [f"with torch.autocast({kind}, torch.bfloat16):", f"    {forward[0]}"]
        outputs = "outputs.float()" if config.loss in LOSSES else "outputs"
    begin = ["    total = 0.0", f"    for part, truth in zip({parts}):"]
    note, end = "total += loss.detach()", ["    return total"]
    if spread:
        begin = [
            "    # A copy between two GPUs waits for all that both were given before, so all parts are on their way first.",
            f"    parts = zip(devices, {parts})",
            f"    parts = [(where, {moved}, truth.to(where)) for where, part, truth in parts]",
            "    losses = []",
            "    for where, part, truth in parts:",
        ]
        note, end = "losses.append(loss.detach())", ["    return sum(loss.to(device) for loss in losses)"]
    return [
        "def forward_and_backward(inputs, labels):",
        '    """Each replica has its part of the batch, its own loss and backward; the gradients add up. Gives the mean loss."""',
        *(_REFRESH if spread else []),
        *begin,
        *(f"        {line}" for line in forward),
        f"        loss = criterion({outputs}, truth) * (len(truth) / len(labels))  # samples count, not replicas",
        "        loss.backward()",
        f"        {note}",
        *(_REDUCE if spread else []),
        *end,
    ]


def scores(config: RunConfig, model: str, given: str, facts: Facts) -> str:
    """The call that gives what the loss is computed of for `given`; one's own loss gets all of what one's own model gives."""
    if facts.several is not None:
        named = (f"{name}={given}[{place}]" for place, name in enumerate(facts.several))
        given = ", ".join(named) if facts.several[0] else f"*{given}"
    call = f"{model}({given})"
    own = is_import_string(config.model) and config.loss in LOSSES
    return scores_of(call, classes_last=facts.classes_last) if own else call


def scores_of(outputs: str, *, classes_last: bool) -> str:
    """The scores among one's own model's outputs, as torch's losses want them.

    Args:
        classes_last: the model gives the classes on the last axis, and torch's losses want them on the second.
    """
    return f"logits({outputs}){'.movedim(-1, 1)' if classes_last else ''}"


def _data_parallel(config: RunConfig) -> list[str]:
    lines = list(_BF16) if config.precision == "bf16" else []
    kind = "nn.DataParallel"
    if config.batch_dim:
        lines, kind = [*lines, *_GATHERING], "GatheringParallel"
    output = ""
    if config.output_device is not None:
        output = f", output_device=devices[{ranks.names(config).index(config.output_device)}]"
    dim = f", dim={config.batch_dim}" if config.batch_dim else ""
    return [*lines, f"model = {kind}(model, device_ids=devices{output}{dim})"]


def _is_spread(config: RunConfig) -> bool:
    return len(set(ranks.names(config))) > 1


def _list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


_REFRESH = (
    "    with torch.no_grad():",
    "        for replica in copies:",
    "            for theirs, mine in zip([*replica.parameters(), *replica.buffers()], [*model.parameters(), *model.buffers()]):",
    "                theirs.copy_(mine)",
)

_REDUCE = (
    "    for replica in copies:",
    "        for theirs, mine in zip(replica.parameters(), model.parameters()):",
    "            if theirs.grad is not None:",
    "                gradient = theirs.grad.to(device)",
    "                mine.grad = gradient if mine.grad is None else mine.grad + gradient",
    "                theirs.grad = None",
)

_GATHERING = (
    "",
    "",
    "class GatheringParallel(nn.DataParallel):",
    '    """Cuts the inputs at `dim`, and gathers the outputs at axis 0, where theirs is."""',
    "",
    "    def gather(self, outputs, output_device):",
    "        return nn.parallel.gather(outputs, output_device, dim=0)",
    "",
    "",
)

_BF16 = (
    "",
    "",
    "class InBf16(nn.Module):",
    '    """Autocast inside: the threads that nn.DataParallel runs its replicas in do not know that of the caller."""',
    "",
    "    def __init__(self, model):",
    "        super().__init__()",
    "        self.model = model",
    "",
    "    def forward(self, *inputs, **named):",
    "        with torch.autocast(device.type, torch.bfloat16):",
    "            return self.model(*inputs, **named)",
    "",
    "",
    "model = InBf16(model)",
)
