"""Asks torch about its GPUs in a process of its own: here torch is never imported, and one that is broken or hangs does no harm."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from tuitrain.devices.doctor.bounded import Ended, python_script, run_all
from tuitrain.devices.doctor.facts import TorchAnswer, TorchDevice, TorchFacts
from tuitrain.signals import signal_name
from tuitrain.text import clean

PROBE_SECONDS = 8.5
WORDS_KEPT = 2000

# One JSON object a line, the next step named before it begins: what is known when the process has to be killed is still known.
SCRIPT = r"""
import json, time

def say(**facts):
    print(json.dumps(facts), flush=True)

def begin(step):
    say(step=step, at=time.monotonic())

begin("import torch")
import importlib.util
if importlib.util.find_spec("torch") is None:
    say(installed=False)
    raise SystemExit
import torch
say(version=str(torch.__version__), cuda=torch.version.cuda, hip=getattr(torch.version, "hip", None))
if torch.version.cuda or getattr(torch.version, "hip", None):
    begin("ask whether NCCL is there")
    try:
        import torch.distributed
        say(nccl=bool(torch.distributed.is_available() and torch.distributed.is_nccl_available()))
    except Exception:
        say(nccl=False)
    begin("count the GPUs")
    say(count=torch.cuda.device_count(), architectures=list(torch.cuda.get_arch_list()))
    begin("start CUDA")
    try:
        torch.cuda.init()
        count = torch.cuda.device_count()
        say(started=True, count=count)
    except Exception as error:
        say(started=False, start_error=str(error))
        raise SystemExit
    begin("read what the GPUs are")
    devices = [{"name": torch.cuda.get_device_name(n), "capability": list(torch.cuda.get_device_capability(n))} for n in range(count)]
    say(devices=devices)
    if count > 1:
        begin("ask which GPUs reach one another")
        pairs = [(a, b) for a in range(count) for b in range(count) if a != b]
        say(peer=all(torch.cuda.can_device_access_peer(a, b) for a, b in pairs))
    for n in range(count):
        begin("compute on cuda:%d" % n)
        try:
            found = (torch.ones(1, device="cuda:%d" % n) + 1).item()
            devices[n]["error"] = "" if found == 2 else "1 + 1 is %s there" % found
        except Exception as error:
            devices[n]["error"] = str(error) or type(error).__name__
        say(devices=devices)
else:
    say(count=0, started=False)
begin("end")
"""
_END = "end"


class _Said(TorchAnswer, frozen=True, kw_only=True):
    """What the process may say in one line; anything else on its output is none of ours."""

    step: str | None = None
    at: float = 0.0


def probe(environ: Mapping[str, str], seconds: float = PROBE_SECONDS, stop: threading.Event | None = None) -> TorchFacts:
    """Ask torch in a fresh process that has `environ`; it takes `seconds` at most, and ends soon after `stop` is set."""
    try:
        (ended,) = run_all([python_script(SCRIPT)], environ, seconds, stop)
    except OSError as error:
        return TorchFacts(asked=False, failed=f"Python could not be started to ask torch ({error.strerror})")
    return read_answer(ended)


def read_answer(ended: Ended) -> TorchFacts:
    """The facts in what the process said before it ended or was killed."""
    said: dict[str, Any] = {}
    step, since = "import torch", ended.at
    for line in ended.out.splitlines():
        for name, value in _facts_of(line).items():
            said[name] = value
        step, since = said.pop("step", step), said.pop("at", since)
    said["devices"] = tuple(_clean_device(device) for device in said.get("devices", ()))
    for name in ("version", "cuda", "hip", "start_error"):
        said[name] = clean(said[name]) if said.get(name) else None
    facts = TorchFacts(words=clean(ended.err[-WORDS_KEPT:]), **said)
    # At its end the process has said everything, though leaving may take it long.
    if ended.code is None and step != _END:
        return msgspec.structs.replace(facts, hung_at=clean(step), hung_seconds=max(0.0, ended.at - since))
    if ended.code:
        return msgspec.structs.replace(facts, failed=_why_it_ended(ended, step))
    return facts


def _facts_of(line: str) -> dict[str, Any]:
    try:
        said = msgspec.json.decode(line, type=_Said)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return {}
    return {name: value for name, value in msgspec.structs.asdict(said).items() if value != _NOTHING[name]}


_NOTHING = msgspec.structs.asdict(_Said())


def _clean_device(device: TorchDevice) -> TorchDevice:
    error = clean(device.error) if device.error else device.error
    return msgspec.structs.replace(device, name=clean(device.name), error=error)


def _why_it_ended(ended: Ended, step: str) -> str:
    code = ended.code or 0
    if code < 0:
        return f"the process was ended by {signal_name(-code)} at: {clean(step)}"
    last = next((line.strip() for line in reversed(ended.err.splitlines()) if line.strip()), f"exit code {code}")
    return clean(last[:300])
