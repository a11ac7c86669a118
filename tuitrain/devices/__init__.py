"""What the machine offers: its cards as NVML sees them, the CPU, and which of them CUDA gives to this process. No torch."""

from tuitrain.devices.inventory import CPU, Choice, busy_words, choices, device_events, free_cuda_devices
from tuitrain.devices.sampler import Sampler
from tuitrain.devices.samples import DeviceSample, DeviceSnapshot, HistoryPoint, HostSample, ProcessSample, Status

__all__ = [
    "CPU",
    "Choice",
    "DeviceSample",
    "DeviceSnapshot",
    "HistoryPoint",
    "HostSample",
    "ProcessSample",
    "Sampler",
    "Status",
    "busy_words",
    "choices",
    "device_events",
    "free_cuda_devices",
]
