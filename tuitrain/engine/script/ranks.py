"""The parts of an exported script that torchrun starts once for each device, with DistributedDataParallel."""

from __future__ import annotations

from tuitrain.config import RunConfig, parse_device
from tuitrain.engine.script.facts import Facts
from tuitrain.import_strings import is_import_string


def names(config: RunConfig) -> tuple[str, ...]:
    """The devices of a resolved configuration, one for each replica."""
    devices = parse_device(config.device)
    return devices if isinstance(devices, tuple) else ("cpu",)


def run_lines(config: RunConfig) -> list[str]:
    """How the script is started, as comments."""
    start, where = "--standalone", ""
    if config.rdzv_endpoint is not None:
        start, where = f"--nnodes {config.nnodes} --rdzv-backend c10d --rdzv-endpoint {config.rdzv_endpoint}", "on every machine "
    return [
        "#",
        f"# Start it {where}with torchrun, which runs it once for each device, all of them at the same time:",
        f"#     torchrun {start} --nproc-per-node {len(names(config))} SCRIPT.py",
    ]


def device_lines(config: RunConfig) -> list[str]:
    """`device`, this process's own; `rank` and `world`, its number and how many there are."""
    own, on_gpu = names(config), _on_gpu(config)
    local_rank = 'int(os.environ["LOCAL_RANK"])'
    lines = ["# What torchrun put into the environment says which of the processes this one is, and where they find each other."]
    if config.data == "cifar10":
        lines.append(f"local_rank = {local_rank}  # on this machine")
        local_rank = "local_rank"
    if on_gpu:
        listed = ", ".join(f'"{name}"' for name in own)
        lines += [
            f'device = torch.device([{listed}][{local_rank}] if torch.cuda.is_available() else "cpu")',
            'if device.type == "cuda":',
            "    torch.cuda.set_device(device)",
        ]
    else:
        lines.append('device = torch.device("cpu")')
    backend = '"nccl" if device.type == "cuda" else "gloo"' if on_gpu else '"gloo"'
    lines += [
        f"dist.init_process_group({backend})",
        "rank, world = dist.get_rank(), dist.get_world_size()  # which one of how many",
    ]
    # In torch 2.13 the threads of gloo's first group outlive it, as DistributedDataParallel holds it. One that lets go of a tensor of
    # Python's while the interpreter ends aborts the process, and torchrun then ends the others, rank 0 among them in the midst of its test;
    # or it waits for the interpreter's lock, which whoever lets go of that holds while it waits for the thread.
    group = 'dist.new_group() if device.type == "cpu" else None' if on_gpu else "dist.new_group()"
    return [*lines, f"sums = {group}  # adds up the losses; its threads end with it, before the interpreter does"]


def _on_gpu(config: RunConfig) -> bool:
    return names(config)[0] != "cpu"


def replica_lines(config: RunConfig) -> list[str]:
    """After `model` is on `device`: what adds up the gradients of all ranks."""
    own = ", find_unused_parameters=True" if is_import_string(config.model) else ""
    return [
        "# Every rank has the same model; in backward all ranks get the mean of their gradients.",
        f"model = DistributedDataParallel(model{own})",
    ]


END_LINES = ("del sums", "dist.destroy_process_group()")
"""After the last step and the last test."""


def functions(config: RunConfig, facts: Facts) -> list[str]:
    """What the training loop calls: a rank's part of a batch and, for a model that may draw random numbers, its seed."""
    parts = chunked("world", f", dim={config.batch_dim}" if config.batch_dim else "", facts)
    parts = parts if facts.several is None else f"list({parts})"
    seeding = ["", "", *_SEEDING, *(_SEEDING_OWN if is_import_string(config.model) else ())] if draws(config) else []
    return [
        "def own_part(inputs, labels):",
        '    """This rank\'s part of a batch, and which share of its samples that is."""',
        f"    parts, truths = {parts}, labels.chunk(world)",
        "    if rank < len(parts):",
        "        return parts[rank], truths[rank], len(truths[rank]) / len(labels)",
        "    # A small batch has fewer parts than there are ranks: this one joins in with a loss that weighs nothing.",
        "    return parts[0], truths[0], 0.0",
        *seeding,
    ]


def chunked(count: str, dim: str, facts: Facts) -> str:
    """The inputs in `count` parts, as an expression; `dim` names the axis where it has to."""
    if facts.several is None:
        return f"inputs.chunk({count}{dim})"
    return f"zip(*(one.chunk({count}) for one in inputs))"


def step_lines(config: RunConfig, forward: list[str]) -> list[str]:
    """One step of the training loop; `forward` gives `loss`, the mean over the samples of `inputs` and `labels`."""
    seeding = ["        if rank > 0:", "            seed_rank(step)"] if draws(config) else []
    add_up = "        dist.all_reduce(loss, group=sums)"
    told = ["        if rank == 0:", '            print(f"step {step} loss {loss.item()}")']
    return ["        inputs, labels, share = own_part(inputs, labels)", *seeding, *forward, "", *_UPDATE, add_up, *told]


def on_rank_0(lines: tuple[str, ...] | list[str]) -> list[str]:
    """`lines` of an epoch's end, done by one rank alone."""
    return ["    # Rank 0 tests alone; the others wait for it at their next step.", "    if rank == 0:", *(f"    {line}" for line in lines)]


def download_lines() -> list[str]:
    """As many ranks want CIFAR-10 as there are; one of each machine fetches it."""
    return [
        'folder = Path("data/cifar-10-batches-py")',
        "if local_rank == 0 and not folder.is_dir():",
        "    import torchvision",
        "",
        '    torchvision.datasets.CIFAR10("data", download=True)',
        "dist.barrier()  # the others wait until it is there",
        "",
    ]


def needs_environment(config: RunConfig) -> bool:
    """Whether the script reads the environment."""
    return config.data == "cifar10" or _on_gpu(config)


def draws(config: RunConfig) -> bool:
    """Whether the model may draw random numbers while it trains, as dropout does."""
    return is_import_string(config.model) or (config.model in ("rnn", "transformer") and config.dropout > 0)


_SEEDING = (
    "def seed_rank(step):",
    '    """Give this rank random numbers of its own for a step, so that no two ranks drop the same places."""',
    '    mixed = int.from_bytes(hashlib.blake2b(f"{seed} {rank} {step}".encode(), digest_size=4).digest(), "big")',
    "    torch.manual_seed(mixed)",
)
_SEEDING_OWN = ("    random.seed(mixed)", "    np.random.seed(mixed)")

_UPDATE = (
    "        optimizer.zero_grad()",
    "        # The mean over ranks shall be the mean over samples, so each rank weighs as much as it has of them.",
    "        (loss * share * world).backward()",
    "        optimizer.step()",
    "",
    "        # The loss of the whole batch is the sum of what each rank has in it.",
    "        loss = loss.detach() * share",
)
