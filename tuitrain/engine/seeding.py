"""Everything process-wide that a run sets: the random seeds, and the flags of torch that it puts back at its end."""

from __future__ import annotations

import gc
import hashlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from typing import Any

import numpy as np
import torch

from tuitrain.allowance import Allowance
from tuitrain.config import RunConfig
from tuitrain.engine.allocator import kept_memory
from tuitrain.engine.failures import empty_frames, reaching
from tuitrain.engine.own import modules as own_modules
from tuitrain.engine.spinning import sleeping_where_crowded

_THREAD_CHOICES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Variables by which a person chooses how many threads compute."""


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(mode: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(mode[0], warn_only=mode[1])


_OF_OTHERS: tuple[tuple[Callable[[], Any], Callable[[Any], None]], ...] = (
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (_deterministic, _set_deterministic),
    (os.getcwd, os.chdir),
)
"""How to ask for, and to set, what only a person's own code changes, and what decides the numbers of the next run of this process too."""


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy, torch and every CUDA device; `seed` is 0 to 2**32 - 1."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def seed_replicas(seed: int, devices: Sequence[torch.device]) -> None:
    """Seed the GPUs after the first each in its own way: with one and the same seed every replica would drop the same places."""
    for position, device in enumerate(dict.fromkeys(devices)):
        if position and device.type == "cuda":
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed + position * 2**32)


def seed_rank(seed: int, rank: int, step: int) -> None:
    """Seed a rank after the first for one step, so that no two drop the same places, and a run that goes on later drops the same ones.

    Hashed, because torch's generator for the CPU takes no more than the lowest 32 bits.
    """
    seed_everything(mixed(seed, rank, step))


def seed_sample(seed: int, draw: int, sample: int) -> None:
    """Seed what draws on the CPU for one sample: it is the same in whatever process, and after whatever else, it is drawn."""
    number = mixed(seed, draw, sample)
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number)  # torch.manual_seed would see to the GPUs too, which takes longer than all else


def mixed(*numbers: int) -> int:
    """A number from 0 to 2**32 - 1 that others of these make another one."""
    digest = hashlib.blake2b(" ".join(map(str, numbers)).encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big")


@contextmanager
def run_settings(config: RunConfig, devices: Sequence[torch.device], *, alone: bool = True) -> Iterator[None]:
    """Seeds, cuDNN's flags, TF32 for products of matrices, torch's threads, the current CUDA device, and on the CPU how memory is kept and
    how threads wait, for one run; as before afterwards, with what a person's own code has set for all of the process.

    The first of the run's devices, where it is a CUDA device, is the current one.

    On CUDA the memory that the run leaves in torch's cache is given back, so that other people on the machine can have it. To that end
    CUDA waits for the device, which may wait for ever for a rank that has died: where the process is not `alone`, an error is not held up.

    Raises:
        ConfigError: that device cannot be used, or has no room for what CUDA needs there.
    """
    deterministic, benchmark = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    threads = torch.get_num_threads()
    others = [_asked(ask) for ask, _ in _OF_OTHERS]
    with reaching(devices[:1]):
        # Where CUDA was used before in this process its generators are seeded at once, whatever the run's device is.
        seed_everything(config.seed)
    torch.backends.cudnn.deterministic = config.deterministic
    # What cuDNN finds out about its algorithms it keeps for a thread, and nn.DataParallel makes new ones in each step.
    threads_of_a_step = config.strategy == "dp" and len(devices) > 1
    torch.backends.cudnn.benchmark = not config.deterministic and not threads_of_a_step
    # The current device decides where contexts are made: nothing may touch cuda:0 while a run is on cuda:1.
    current = _current(devices[0]) if devices[0].type == "cuda" else _on_the_cpu()
    gives_back = any(device.type == "cuda" for device in devices)
    # A CPU that is told so may multiply in bfloat16.
    products = _in_tf32() if config.precision == "tf32" and gives_back else nullcontext()
    try:
        with ExitStack() as settings:
            _keep_to_allowance(threads)
            with reaching(devices[:1]):
                settings.enter_context(current)
            settings.enter_context(products)
            yield
    except BaseException as error:
        # Else what was made on the devices is still held when their memory is given back.
        empty_frames(error)
        gives_back = gives_back and alone
        raise
    finally:
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = deterministic, benchmark
        torch.set_num_threads(threads)
        _set_again(others)
        own_modules.let_go()
        if gives_back:
            _give_memory_back()


def _keep_to_allowance(threads: int) -> None:
    """No more threads than may run at once; torch counts the machine's processors. Who has chosen a number has it."""
    if (allowed := Allowance().processors()) < threads and not any(name in os.environ for name in _THREAD_CHOICES):
        torch.set_num_threads(allowed)


@contextmanager
def _on_the_cpu() -> Iterator[None]:
    with kept_memory(), sleeping_where_crowded():
        yield


@contextmanager
def _in_tf32() -> Iterator[None]:
    """Products of matrices in TF32. That convolutions are in it is torch's own choice."""
    before = _asked(torch.get_float32_matmul_precision)
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        if before is not None and _asked(torch.get_float32_matmul_precision) == "high":
            torch.set_float32_matmul_precision(before)


def _give_memory_back() -> None:
    gc.collect()
    # cuBLAS keeps a workspace for each thread and stream that multiplied matrices, which is no free memory before this. The name is not
    # public, and a torch without CUDA does not have it.
    clear_workspaces = getattr(torch._C, "_cuda_clearCublasWorkspaces", lambda: None)
    with suppress(RuntimeError):  # a broken CUDA context has nothing to give back
        clear_workspaces()
        torch.cuda.empty_cache()


def _asked(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (OSError, RuntimeError):  # the folder is gone; torch was told so in a newer way, and does not answer in this one
        return None


def _set_again(before: Sequence[Any]) -> None:
    """What was set by importing a module is set again by importing it again."""
    for (ask, put), value in zip(_OF_OTHERS, before, strict=True):
        if value is not None and _asked(ask) != value:
            own_modules.forget()
            with suppress(OSError):
                put(value)


@contextmanager
def _current(device: torch.device) -> Iterator[None]:
    """CUDA's current device is this one inside, and afterwards that of before."""
    guard = torch.cuda.device(device)
    guard.__enter__()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        with suppress(RuntimeError):  # where CUDA is broken it may not even say which is the current one
            guard.__exit__(None, None, None)


def host_generators() -> list[Any]:
    """The states of Python's, NumPy's and torch's generators on the host, as values that can be compared."""
    kind, keys, *place = np.random.get_state(legacy=True)
    return [random.getstate(), kind, np.asarray(keys).tobytes(), place, torch.get_rng_state().numpy().tobytes()]


@contextmanager
def untouched_random(device: torch.device) -> Iterator[None]:
    """Whatever is drawn from Python's, NumPy's and torch's generators inside is as if it had not been."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
