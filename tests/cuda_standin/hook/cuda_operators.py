"""Computes on the CPU what torch's operators would launch as CUDA kernels: the stand-in's device memory is memory of the host.

Each operator that torch has a CUDA kernel for is replaced by one that calls the CPU's on tensors over the same memory. What is put into a
stream that records is not done, but done again at each replay, on the same addresses. What must wait for the device asks torch to, so that
torch's own checks see it. Random numbers follow from the state of torch's CUDA generator, which moves on, so that it can be kept and set.
cuDNN and fused attention are left out; a compiled model, a kernel of one's own, and sparse or nested tensors are beyond it.
"""

from __future__ import annotations

import ctypes
import inspect
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map

# Their CUDA kernels compute nothing: they allocate, look at sizes, or wait and copy one number.
_ON_THE_HOST = {
    *("empty", "empty_strided", "as_strided", "as_strided_", "view", "_reshape_alias", "unfold", "view_as_real", "view_as_complex"),
    *("set_", "resize_", "is_set_to", "record_stream", "_pin_memory", "is_pinned", "_local_scalar_dense", "_fused_sdp_choice"),
    *("_has_same_storage_numel", "_efficientzerotensor", "cudnn_is_acceptable", "_debug_has_internal_overlap"),
}
# These have no CUDA kernel of their own name, and choose cuDNN's or another one inside.
_BESIDES = ("aten::convolution", "aten::convolution_backward")
_RANDOM = ("rand", "bernoulli", "normal_", "uniform_", "dropout", "multinomial", "exponential_", "geometric_", "cauchy_", "poisson")
# The number of what they give depends on values.
_WAITS = {"nonzero", "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "equal", "_linalg_eigh", "bincount"}
_MAY_TAKE_CPU = {"_index_put_impl_", "index_put_", "index_put", "index"}
_DRAWN = 4
"""How far a generator moves on with each operator."""

_runtime = ctypes.CDLL(None)
"""The stand-in is loaded before all else, and has these names alone."""
_Call = ctypes.CFUNCTYPE(None, ctypes.c_ulonglong)
_QUEUE = [ctypes.c_int, ctypes.c_void_p]
_runtime.standin_recorded.argtypes, _runtime.standin_recorded.restype = _QUEUE, ctypes.c_ulonglong
_runtime.standin_put.argtypes = _runtime.standin_land.argtypes = [*_QUEUE, _Call, ctypes.c_ulonglong]

Work = Callable[[], object]
_recorded: list[Work] = []
_landing: dict[int, Work] = {}
_drawing = threading.RLock()
_library: torch.library.Library


def install() -> None:
    """Replace torch's CUDA kernels, in this process."""
    global _library
    _library = torch.library.Library("aten", "IMPL")
    torch.backends.cudnn.enabled = False
    for enable in (
        torch.backends.cuda.enable_flash_sdp,
        torch.backends.cuda.enable_mem_efficient_sdp,
        torch.backends.cuda.enable_cudnn_sdp,
    ):
        enable(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says of each that it is replaced
        for full in torch._C._dispatch_get_all_op_names():
            if full.startswith("aten::") and (full in _BESIDES or torch._C._dispatch_has_kernel_for_dispatch_key(full, "CUDA")):
                _replace(full.removeprefix("aten::"))
        _put_in_place("copy_", _copy)


def _replace(name: str) -> None:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base, None)
    operator = getattr(packet, overload or "default", None)
    if operator is not None and base not in _ON_THE_HOST:
        _put_in_place(name, _on_cpu(operator, base))


def _put_in_place(name: str, kernel: Callable[..., Any]) -> None:
    allowed = {"allow_override": True} if "allow_override" in inspect.signature(_library.impl).parameters else {}
    _library.impl(name, kernel, "CUDA", **allowed)


def _on_cpu(operator: Any, base: str) -> Callable[..., Any]:
    """What takes the place of the CUDA kernel of `operator`."""
    draws, waits = any(word in base for word in _RANDOM), base in _WAITS

    def kernel(*args: Any, **kwargs: Any) -> Any:
        given, _ = tree_flatten((args, kwargs))
        tensors = [one for one in given if isinstance(one, Tensor)]
        device = _device(kwargs.get("device"), tensors)
        if base not in _MAY_TAKE_CPU:
            _check_together(tensors, device, base)
        generator = next((one for one in given if isinstance(one, torch.Generator)), None) if draws else None
        if draws and generator is None:
            generator = torch.cuda.default_generators[device.index]
        if waits:
            torch.cuda.current_stream(device).synchronize()
        twins = _Twins()
        args, kwargs = tree_map(twins.of, args), tree_map(twins.of, kwargs)
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False

        def compute(args: Any, kwargs: Any, *, drawn: torch.Generator | None) -> Any:
            with torch._C._AutoDispatchBelowAutograd(), nullcontext() if drawn is None else _seeded(drawn):
                return operator(*args, **kwargs)

        if _records(device):
            return _record(compute, twins, args, kwargs, device, generator)
        made = compute(args, kwargs, drawn=generator)
        twins.follow_sizes()
        return tree_map(lambda one: twins.back(one) if twins.knows(one) else _to_device(one, device), made)

    return kernel


class _Twins:
    """Tensors on the CPU over the memory of tensors on the device."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Tensor, Tensor]] = {}

    def of(self, one: Any) -> Any:
        """What stands for an argument on the CPU."""
        if isinstance(one, Tensor) and one.is_cuda:
            twin = _over(one)
            self._pairs[id(twin)] = twin, one
            return twin
        if isinstance(one, torch.Generator):
            return None
        return torch.device("cpu") if isinstance(one, torch.device) else one

    def knows(self, one: Any) -> bool:
        return id(one) in self._pairs

    def back(self, twin: Tensor) -> Tensor:
        return self._pairs[id(twin)][1]

    def follow_sizes(self) -> None:
        """An operator may make what it is given to write to larger."""
        for twin, original in self._pairs.values():
            if twin.size() != original.size():
                original.resize_(twin.size())
                _over(original).copy_(twin)


def _over(tensor: Tensor) -> Tensor:
    """A tensor on the CPU over the memory of one on the device, which it does not hold."""
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    memory = (ctypes.c_byte * storage.nbytes()).from_address(storage.data_ptr())
    raw = torch.frombuffer(memory, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=tensor.dtype).set_(raw, tensor.storage_offset(), tensor.size(), tensor.stride())


def _to_device(one: Any, device: torch.device) -> Any:
    if not isinstance(one, Tensor):
        return one
    made = torch.empty_strided(one.size(), one.stride(), dtype=one.dtype, device=device)
    if one.numel():
        _over(made).copy_(one)
    return made


def _device(wanted: Any, tensors: list[Tensor]) -> torch.device:
    device = torch.device(wanted) if wanted is not None else next((one.device for one in tensors if one.is_cuda), torch.device("cuda"))
    return device if device.index is not None else torch.device("cuda", torch.cuda.current_device())


def _check_together(tensors: list[Tensor], device: torch.device, name: str) -> None:
    for one in tensors:
        # A number is taken from the CPU too.
        if one.device != device and (one.is_cuda or (one.dim() and one.numel())):
            found = f"Expected all tensors to be on the same device, but found at least two devices, {device} and {one.device}!"
            raise RuntimeError(f"{found} (when checking arguments of {name})")


def _queue(device: torch.device) -> tuple[int, int]:
    """The device's number and its current stream."""
    return device.index, torch._C._cuda_getCurrentRawStream(device.index)


@contextmanager
def _seeded(generator: torch.Generator) -> Iterator[None]:
    with _drawing:
        state = generator.get_state()
        seed, offset = state.view(torch.int64).tolist()
        state.view(torch.int64)[1] += _DRAWN
        generator.set_state(state)
        before = torch.default_generator.get_state()
        torch.default_generator.manual_seed(hash((seed, offset)) % 2**32)
        try:
            yield
        finally:
            torch.default_generator.set_state(before)


def _record(
    compute: Callable[..., Any], twins: _Twins, args: Any, kwargs: Any, device: torch.device, generator: torch.Generator | None
) -> Any:
    """Have it done at each replay. Now it is done on copies, which tells the shapes of what it gives."""
    copies: dict[int, tuple[Tensor, Tensor]] = {}
    places: list[Tensor | None] = []

    def copied(one: Any) -> Any:
        if not twins.knows(one):
            return one
        storage = one.untyped_storage().clone()
        copy = torch.empty(0, dtype=one.dtype).set_(storage, one.storage_offset(), one.size(), one.stride())
        copies[id(copy)] = copy, twins.back(one)
        return copy

    def given(one: Any) -> Any:
        if not isinstance(one, Tensor):
            return one
        if id(one) in copies:
            places.append(None)
            return copies[id(one)][1]
        made = _to_device(one, device)
        places.append(_over(made))
        return made

    def again() -> None:
        made, _ = tree_flatten(compute(args, kwargs, drawn=generator))
        for place, one in zip(places, (one for one in made if isinstance(one, Tensor)), strict=True):
            if place is not None:
                place.copy_(one)

    result = tree_map(given, compute(tree_map(copied, args), tree_map(copied, kwargs), drawn=None))
    _put_in_recording(again, device)
    return result


def _copy(self: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    """What takes the place of `copy_` where one of the two is on a device."""
    device = self.device if self.is_cuda else source.device
    if self.device.type != source.device.type and not non_blocking:
        torch.cuda.current_stream(device).synchronize()
    to, what = (_over(one) if one.is_cuda else one for one in (self, source.expand(self.size())))
    if _records(device):
        _put_in_recording(lambda: to.copy_(what), device)
    elif not self.is_cuda and non_blocking and self.is_pinned():
        # What is in the device's memory now lands later, whatever is done with that memory meanwhile.
        _land(to, what.clone(), device)
    elif self.numel():
        with torch._C._AutoDispatchBelowAutograd():
            to.copy_(what)
    return self


def _records(device: torch.device) -> bool:
    return bool(_runtime.standin_recorded(*_queue(device)))


def _put_in_recording(work: Work, device: torch.device) -> None:
    _recorded.append(work)
    if _runtime.standin_put(*_queue(device), _do_again, len(_recorded) - 1):
        raise RuntimeError("CUDA error: operation failed due to a previous error during capture")


def _land(to: Tensor, what: Tensor, device: torch.device) -> None:
    work = partial(to.copy_, what)
    _landing[id(work)] = work
    _runtime.standin_land(*_queue(device), _do_landing, id(work))


@_Call
def _do_again(number: int) -> None:
    _do(_recorded[number])


@_Call
def _do_landing(key: int) -> None:
    _do(_landing.pop(key))


def _do(work: Work) -> None:
    """C cannot take what is raised."""
    try:
        with torch._C._AutoDispatchBelowAutograd():
            work()
    except Exception:
        traceback.print_exc()
        os.abort()
