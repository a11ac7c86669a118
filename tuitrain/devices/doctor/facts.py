"""What was found on the machine, as frozen values. The checks are functions of these and look at nothing themselves.

`None` means that nobody could tell, never 0. Every string is cleaned of control characters.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tuitrain.devices import nvml
from tuitrain.devices.samples import DeviceSample, DeviceSnapshot

NVIDIA = 0x10DE
MAKERS = {NVIDIA: "NVIDIA", 0x1002: "AMD", 0x1022: "AMD", 0x8086: "Intel", 0x1A03: "ASPEED (server board)", 0x102B: "Matrox (server board)"}

_REFUSALS = (
    nvml.NO_PERMISSION,
    nvml.TIMEOUT,
    nvml.GPU_IS_LOST,
    nvml.RESET_REQUIRED,
    nvml.OPERATING_SYSTEM,
    nvml.LIB_RM_VERSION_MISMATCH,
    nvml.UNKNOWN,
)


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """A display adapter on the PCI bus. `slot` is its place there, `driver` the kernel module that has it."""

    slot: str
    vendor: int
    driver: str | None

    @property
    def maker(self) -> str:
        """Whose it is, in a word."""
        return MAKERS.get(self.vendor, f"vendor {self.vendor:04x}")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A device file such as nvidia0. `error` is the errno of opening it, 0 where that works."""

    name: str
    error: int


class SystemFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The hardware, the driver, and what stands between them and this process.

    `adapters` is `None` where the bus cannot be read; `known` are the cards in /proc/driver/nvidia/gpus as (bus id, minor number).
    `libraries` are the versions of the driver's libraries on disk, `module_version` that of the loaded kernel module.
    `daemons` are the names of NVIDIA's services that run; `distribution` are the words of os-release for the system and its relatives.
    `shared_memory` is the size limit of /dev/shm in bytes, `None` where there is none of its own.
    """

    adapters: tuple[Adapter, ...] | None = None
    switches: int = 0
    module_loaded: bool = False
    module_version: str | None = None
    known: tuple[tuple[str, int | None], ...] | None = None
    nodes: tuple[Node, ...] = ()
    uvm: Node | None = None
    modules: frozenset[str] = frozenset()
    libraries: tuple[str, ...] = ()
    compat_paths: tuple[str, ...] = ()
    container: str | None = None
    wsl: bool = False
    dxg: bool = False
    wsl_library: bool = False
    daemons: frozenset[str] = frozenset()
    distribution: tuple[str, ...] = ()
    shared_memory: int | None = None

    @property
    def nvidia(self) -> tuple[Adapter, ...]:
        """NVIDIA's cards on the bus."""
        return tuple(adapter for adapter in self.adapters or () if adapter.vendor == NVIDIA)

    @property
    def openable(self) -> int:
        """How many cards' device files this process may open."""
        return sum(node.error == 0 for node in self.nodes)


class TorchDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as torch sees it. `error` is what adding one number on it said, "" where that works, `None` where it was not tried."""

    name: str = "GPU"
    capability: tuple[int, int] | None = None
    error: str | None = None


class TorchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What torch says in a process of its own.

    `count` is `torch.cuda.device_count()`; `started` whether CUDA could be initialised, and `start_error` what it said if not.
    `peer` says whether each card may read each other card's memory.
    """

    installed: bool = True
    version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    nccl: bool | None = None
    count: int | None = None
    started: bool | None = None
    start_error: str | None = None
    architectures: tuple[str, ...] = ()
    devices: tuple[TorchDevice, ...] = ()
    peer: bool | None = None


class TorchFacts(TorchAnswer, frozen=True, kw_only=True):
    """The answer, and how the process ended.

    `hung_at` is the step that had not ended when the time was up, after `hung_seconds` in it. `failed` says why there is no answer at all.
    `words` is what the process said beside its answer.
    """

    asked: bool = True
    failed: str | None = None
    hung_at: str | None = None
    hung_seconds: float = 0.0
    words: str = ""

    @property
    def complaint(self) -> str:
        """Everything torch and CUDA said about not starting, in one text to look for numbers and words in."""
        if self.started:
            return ""
        return " ".join(text for text in (self.start_error, self.failed, self.words) if text)


class TerminalFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The terminal. `is_one` is false in a pipe; then the rest says nothing. `encoding` is Python's for its output."""

    is_one: bool
    columns: int = 80
    rows: int = 24
    term: str = ""
    colorterm: str = ""
    encoding: str = "utf-8"
    locale: str = ""
    tmux: bool = False
    screen: bool = False


class StorageFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The disk of the runs folder. `free` is bytes; `error` is what writing a file said; `hung` that it never answered."""

    folder: str
    exists: bool = True
    file_system: str | None = None
    free: int | None = None
    error: str | None = None
    hung: bool = False


class LogoutFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What a logout does. `kills` is KillUserProcesses as configured, `None` where nobody set it; `excluded` that this user is spared."""

    systemd: bool = False
    kills: bool | None = None
    excluded: bool = False
    lingers: bool = False


class Versions(msgspec.Struct, frozen=True, kw_only=True):
    """What a helper in a forum asks first. `deprecated_pynvml` is the version of the package named pynvml, if installed.

    `python_command` starts this Python from a shell.
    """

    tuitrain: str = "?"
    python: str = "?"
    system: str = "?"
    deprecated_pynvml: str | None = None
    python_command: str = "python"


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything. `environ` is the environment that a training run would have."""

    snapshot: DeviceSnapshot
    environ: Mapping[str, str]
    system: SystemFacts = SystemFacts()
    torch: TorchFacts = TorchFacts(asked=False)
    terminal: TerminalFacts = TerminalFacts(is_one=False)
    storage: StorageFacts | None = None
    logout: LogoutFacts = LogoutFacts()
    versions: Versions = Versions()

    @property
    def cards(self) -> tuple[DeviceSample, ...]:
        """Whole cards as NVML sees them, without MIG instances."""
        return tuple(card for card in self.snapshot.devices if card.instance is None)

    @property
    def python(self) -> str:
        """What starts this Python from a shell."""
        return self.versions.python_command

    @property
    def silent(self) -> bool:
        """NVML has not answered, now or at all."""
        return self.snapshot.silent

    @property
    def refused(self) -> bool:
        """NVML found a driver that does not answer it, so there may be GPUs that nobody sees from here."""
        error = self.snapshot.error or ""
        return self.snapshot.stalled_seconds > 0 or any(nvml.sentence(code) in error for code in _REFUSALS)

    @property
    def gpu_in_reach(self) -> bool:
        """There is an NVIDIA GPU that this process should be able to use."""
        here = bool(self.system.nvidia) and self.system.container is None
        return bool(self.cards) or self.system.openable > 0 or here or (self.system.dxg and self.system.wsl_library)

    @property
    def batch_system(self) -> str | None:
        """The batch system that gave this process its share of the machine, if one did."""
        names = {"SLURM_JOB_ID": "Slurm", "PBS_JOBID": "PBS", "LSB_JOBID": "LSF"}
        return next((name for variable, name in names.items() if variable in self.environ), None)
