"""What went wrong in a run, as one sentence for the person who reads it."""

from __future__ import annotations

import re
import traceback
from bdb import BdbQuit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from tuitrain.config import ConfigError
from tuitrain.engine.layers import failed_layer
from tuitrain.engine.places import own_place, place
from tuitrain.text import clean

_LONGEST = 300
# torch has a kind of error for its own allocator alone; a context, a graph, and the libraries of CUDA take memory without it.
_NO_MEMORY = re.compile(
    r"can't allocate memory|error: out of memory|Cuda failure (\d+ )?'out of memory'|CU[A-Z]+_STATUS_([A-Z_]*_)?ALLOC(ATION)?_FAILED"
    r"|CU[A-Z]+_STATUS_NOT_INITIALIZED,? when calling `cu\w+Create"
)
# Behind this torch tells of its own cache, and what to set so that it holds less.
_OF_THE_CACHE = " Of the allocated memory "
_NO_KERNELS = "no kernel image is available"
# What a library of CUDA says of a card with which it does not work, whatever is computed there.
_NOT_FOR_IT = re.compile(rf"CU[A-Z]+_STATUS_(NOT_INITIALIZED|ARCH_MISMATCH)|{_NO_KERNELS}")
# What cuDNN says where none of its ways to convolve fits in the memory that is left, or none is for this precision on this card.
_NO_WAY = re.compile(r"unable to find an engine to execute this computation|unable to find a valid cuDNN algorithm", re.IGNORECASE)
# After one of these CUDA answers nothing else in the process that had it, whatever is asked.
_BROKEN = re.compile(
    r"CUDA error: (device-side assert triggered|an illegal memory access|an illegal instruction|misaligned address|invalid program counter"
    r"|operation not supported on global/shared address space|unspecified launch failure|hardware stack error|the launch timed out"
    r"|uncorrectable (ECC|NVLink) error|Invalid access of peer GPU memory over nvlink or a hardware error)"
)
_NO_WAY_ADVICE = "free memory there, take a smaller batch_size or, on a card that has no bf16, the precision fp32"
# One that cannot read a line leaves by itself.
_LEFT_DEBUGGER = "a debugger was left; it has a keyboard only with `tuitrain run` in a terminal"
_NO_GRADIENT = "does not require grad and does not have a grad_fn"
# How torch's ExceptionWrapper puts an error of another thread: the whole traceback, whose lines are indented, and then the error.
_RERAISED = re.compile(r"^Caught .*^Original Traceback .*?^[\w.]+(: (?P<message>.*))?\Z", re.MULTILINE | re.DOTALL)
# What torch says of NCCL's errors: where it called, what kind of error that is, and what NCCL itself said last, where it said anything.
_NCCL = re.compile(r"^(?P<kind>nccl\w+Error|ncclInvalid\w+): (?P<meaning>.*?)\s*(\nLast error:\s*(?P<last>.*))?$", re.MULTILINE)
_NCCL_SAID_NOTHING = ("", "Unknown NCCL Error")


class RunFailed(Exception):
    """A run cannot go on. The text is one sentence that begins with the step.

    Attributes:
        step: the step that failed.
    """

    def __init__(self, step: int, reason: str) -> None:
        super().__init__(f"step {step}: {reason}")
        self.step = step


@dataclass(frozen=True)
class NcclError:
    """What NCCL says of an error: its own word for the kind ("ncclSystemError"), and the reason, `None` where it does not know one."""

    kind: str
    reason: str | None


def nccl_error(error: BaseException) -> NcclError | None:
    """What `error` says of NCCL, where it is one of NCCL's."""
    found = _NCCL.search(str(error))
    if found is None:
        return None
    last = (found["last"] or "").strip()
    return NcclError(found["kind"], None if last in _NCCL_SAID_NOTHING else last)


def first_line(error: BaseException) -> str:
    """The first line of an error's message, of one of NCCL's its reason, or its type where it has none; without a full stop at its end.

    Where that line only announces the others it is all of them.
    """
    nccl = nccl_error(error)
    lines = _message(error).strip().splitlines() if nccl is None or nccl.reason is None else [f"NCCL: {nccl.reason}"]
    # A first line that ends so announces the others, as that of load_state_dict does.
    told = " ".join(" ".join(lines).split()) if lines and lines[0].rstrip().endswith(":") else "".join(lines[:1])
    text = clean(told.partition(_OF_THE_CACHE)[0].strip().rstrip(".")) or type(error).__name__
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _message(error: BaseException) -> str:
    """An error's message; of one that comes from a thread of nn.DataParallel's the message that it had there."""
    if isinstance(error, BdbQuit):
        return _LEFT_DEBUGGER
    there = _RERAISED.search(str(error))
    return str(error) if there is None else there["message"] or ""


def first_line_and_place(error: BaseException, *, anywhere: bool = False) -> str:
    """`first_line`, and where that was: in which layer, and in which line of the person's own code.

    Args:
        anywhere: of an error in neither, the line of torch's or Python's code.
    """
    # A GPU says later than the line that asked for it that something cannot be computed.
    if breaks_cuda(error):
        return first_line(error)
    where = "; ".join(filter(None, (failed_layer(error), own_place(error)))) or (place(error) if anywhere else "")
    return f"{first_line(error)} ({where})" if where else first_line(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that a device, or the machine, has no memory left."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or _NO_MEMORY.search(str(error)) is not None


def is_of_the_device(error: BaseException) -> bool:
    """Whether `error` is the device's, which has no room or with which CUDA's libraries do not work, and not that of what was computed."""
    return is_out_of_memory(error) or any(said.search(str(error)) for said in (_NOT_FOR_IT, _NO_WAY))


def breaks_cuda(error: BaseException) -> bool:
    """Whether after `error` this process cannot use CUDA any more."""
    return _BROKEN.search(str(error)) is not None


def unusable(error: BaseException, devices: Sequence[torch.device]) -> ConfigError:
    """Why a run cannot begin on `devices`: they have no room, or cannot be used."""
    names, reason = " or ".join(map(str, dict.fromkeys(devices))), first_line(error)
    if breaks_cuda(error):
        return ConfigError(
            f"device: this process cannot train any more, because a computation failed on a GPU ({reason}); start tuitrain again."
        )
    if _NO_KERNELS in str(error):
        return ConfigError(f"device: {names} cannot be used: this torch has no kernels for it; `tuitrain doctor` says which one has.")
    if is_out_of_memory(error):
        return ConfigError(
            f"device: {names} has no room for the model and the data ({reason}); free some memory there or choose another device."
        )
    if _NO_WAY.search(str(error)):
        return ConfigError(f"device: cuDNN cannot convolve on {names} ({reason}); {_NO_WAY_ADVICE}.")
    return ConfigError(f"device: {names} cannot be used: {reason}.")


def empty_frames(error: BaseException) -> None:
    """Take away the variables of what has ended with `error`, and with those that led to it; they would live as long as it does."""
    errors, seen = [error], set[int]()
    while errors:
        one = errors.pop()
        if id(one) not in seen:
            seen.add(id(one))
            traceback.clear_frames(one.__traceback__)
            errors += [each for each in (one.__cause__, one.__context__) if each is not None]


@contextmanager
def reaching(devices: Sequence[torch.device]) -> Iterator[None]:
    """What is inside is the first that needs `devices`, or much of their memory.

    Raises:
        ConfigError: there is no room, or a device cannot be used.
    """
    try:
        yield
    except torch.cuda.DeferredCudaCallError as error:  # what was asked for before CUDA had started failed when it did
        raise unusable(error.__cause__ or error, devices) from error
    except RuntimeError as error:
        raise unusable(error, devices) from error


def describe(error: BaseException, doing: str, device: torch.device | str, *, in_parts: bool = False) -> str:
    """What happened while `doing` ("training"), and where in the code, as one sentence.

    Args:
        in_parts: the device could take each batch in parts.
    """
    if isinstance(error, ConfigError):  # a sample cannot be read, and this says all of it
        return str(error)
    if is_out_of_memory(error):
        parts = f", and so does the strategy split with {device} named several times" if in_parts else ""
        return f"{device} ran out of memory while {doing}; a smaller batch_size needs less{parts} ({first_line(error)})."
    if _NO_WAY.search(str(error)):
        return f"cuDNN cannot convolve on {device} while {doing} ({first_line(error)}); {_NO_WAY_ADVICE}."
    if _NO_GRADIENT in str(error):
        return (
            f"no gradient comes back to the model while {doing}: its scores were computed under torch.no_grad(), detached, or not by torch."
        )
    return f"{type(error).__name__} while {doing}: {first_line_and_place(error, anywhere=True)}."
