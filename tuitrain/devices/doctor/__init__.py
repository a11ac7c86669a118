"""The doctor: what is wrong with this machine's GPUs, where on the way from the PCI bus to torch one gets lost, and what mends it."""

from tuitrain.devices.doctor.examination import examine
from tuitrain.devices.doctor.exchange import all_reduce, two_devices
from tuitrain.devices.doctor.facts import TerminalFacts
from tuitrain.devices.doctor.model import Check, Count, Report, Verdict
from tuitrain.devices.doctor.text import as_json, as_text

__all__ = ["Check", "Count", "Report", "TerminalFacts", "Verdict", "all_reduce", "as_json", "as_text", "examine", "two_devices"]
