"""What is said of errors that torch raises on a GPU, in their own words."""

from __future__ import annotations

import pytest

from tuitrain.engine.failures import describe, is_out_of_memory

FULL = [
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
    "CUDA driver error: out of memory",
    "HIP error: out of memory",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
    "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
    "[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.",
]


@pytest.mark.parametrize("text", FULL)
def test_a_full_device_is_one_whoever_says_so(text: str) -> None:
    assert is_out_of_memory(RuntimeError(text))
    said = describe(RuntimeError(text), "training", "cuda:0")
    assert said.startswith("cuda:0 ran out of memory while training; a smaller batch_size needs less (")
    assert "\n" not in said


@pytest.mark.parametrize("text", ["CUDA error: device-side assert triggered", "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "out of range"])
def test_other_errors_do_not_speak_of_memory(text: str) -> None:
    assert not is_out_of_memory(RuntimeError(text))
    assert "memory" not in describe(RuntimeError(text), "training", "cuda:0")
