"""One round of questions to one card, and the word for a card that does not answer them."""

from __future__ import annotations

from typing import Any

from tuitrain.devices import nvml
from tuitrain.devices.nvml import Nvml, NvmlFault
from tuitrain.devices.samples import Status

# These say that one question has no answer, not that the card is unwell.
_NO_ANSWER = (
    nvml.NOT_SUPPORTED,
    nvml.NOT_FOUND,
    nvml.FUNCTION_NOT_FOUND,
    nvml.INVALID_ARGUMENT,
    nvml.ARGUMENT_VERSION_MISMATCH,
)
_STATUS: dict[int, Status] = {
    nvml.NO_PERMISSION: "no permission",
    nvml.OPERATING_SYSTEM: "no permission",
    nvml.TIMEOUT: "not responding",
    nvml.GPU_IS_LOST: "lost",
    nvml.RESET_REQUIRED: "reset required",
}
_REASONS: dict[Status, str] = {
    "no permission": "this user may not open this card",
    "not responding": "the driver got no answer in time",
    "lost": "this card has fallen off the bus; reboot the machine",
    "reset required": "this card needs a reset (close tuitrain, then: sudo nvidia-smi --gpu-reset -i {index}) or a reboot",
    "unknown error": "the driver does not say why; reboot if it stays so",
}


def card_status(code: int) -> Status:
    """The word for a card that fails as a whole with NVML's `code`."""
    return _STATUS.get(code, "unknown error")


def card_reason(status: Status, index: int) -> str:
    """The sentence for that word; `index` is NVML's number of the card."""
    return _REASONS.get(status, status).format(index=index)


class Questions:
    """Asks NVML about one card: `None` for what has no answer, and at the end the word for the card.

    `code` is why the last question had no answer, 0 where it had one; `answered` says whether any had one.
    """

    def __init__(self, connection: Nvml, handle: Any) -> None:
        self._nvml = connection
        self._handle = handle
        self._trouble: int | None = None
        self.answered = False
        self.code = 0

    def __call__(self, function: str, *arguments: Any) -> Any:
        """The answer of pynvml's `function`, or `None`."""
        # A lost card takes seconds over each call, so it is asked nothing more.
        if self._trouble in (nvml.GPU_IS_LOST, nvml.RESET_REQUIRED):
            return None
        try:
            answer = self._nvml.ask(function, self._handle, *arguments)
        except NvmlFault as fault:
            self.code = fault.code
            if fault.code not in _NO_ANSWER:
                self._trouble = fault.code
            return None
        self.answered = True
        self.code = 0
        return answer

    def status(self) -> Status:
        """ "ok" where the card answered one question and none with being lost or in need of a reset."""
        if self._trouble in (nvml.GPU_IS_LOST, nvml.RESET_REQUIRED) or (self._trouble is not None and not self.answered):
            return card_status(self._trouble)
        return "ok"
