"""What the machine offers: its cards as NVML sees them, the CPU, and which of them CUDA gives to this process. No torch."""

from tuitrain.devices.inventory import CPU, Choice, busy_words, choices, device_events, device_name, free_cuda_devices
from tuitrain.devices.sampler import Sampler
from tuitrain.devices.samples import Clocks, DeviceSample, DeviceSnapshot, HistoryPoint, HostSample, Link, ProcessSample, Status

__all__ = [
    "CPU",
    "Choice",
    "Clocks",
    "DeviceSample",
    "DeviceSnapshot",
    "HistoryPoint",
    "HostSample",
    "Link",
    "ProcessSample",
    "Sampler",
    "Status",
    "busy_words",
    "choices",
    "device_events",
    "device_name",
    "free_cuda_devices",
]
