"""The worker thread: hosts one run at a time in this process, with or without a screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import Event, GpuSample, Notice, Progress, RunEnded, RunStarted
from tuitrain.runs.record import RunRecord
from tuitrain.session.control import Control, Request
from tuitrain.session.recorder import Listener, Recorder
from tuitrain.session.threads import lasting_imports

if TYPE_CHECKING:
    from tuitrain.runs.folder import RunFolder
    from tuitrain.session.on_end import OnEnd

SessionState = Literal["idle", "preparing", "running", "paused", "stopping", "ended"]

Train = Callable[[RunConfig, Control], Iterator[Event]]


class WorkerSession:
    """Trains in a thread of its own and records in another; `join` joins both, and the one of the run's `on_end`.

    Args:
        load_train: gives the engine's train function. It is called in the training thread, because it imports torch.
        runs_dir: where the run folders are made.
        free_cuda_devices: CUDA ordinals, the one with most free memory first; empty where there is none.
    """

    def __init__(self, load_train: Callable[[], Train], runs_dir: Path, free_cuda_devices: Callable[[], Sequence[int]]) -> None:
        self.record: RunRecord | None = None
        self.refusal: str | None = None
        self._load_train = load_train
        self._loaded: Train | None = None
        self._runs_dir = runs_dir
        self._free_cuda_devices = free_cuda_devices
        self._listeners: list[Listener] = []
        self._control: Control | None = None
        self._recorder: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._commands: list[OnEnd] = []

    @property
    def state(self) -> SessionState:
        """What the session does now; "ended" only when both threads have let go of the run, be its `on_end` over or not."""
        if self.record is None or self._control is None:
            return "idle"
        if not self._alive():
            return "ended"
        if self._control.ending or self.record.state in ("finished", "stopped", "failed", "interrupted"):
            return "stopping"
        if self.record.started is None:
            return "preparing"
        return "paused" if self.record.state == "paused" else "running"

    def start(self, config: RunConfig) -> None:
        """Start a run.

        Raises:
            RuntimeError: one is alive in this session.
        """
        if self._alive():
            raise RuntimeError("a run is alive in this session; stop it first")
        self.refusal = None
        self.record = RunRecord(config)
        self._control = Control(self._free_cuda_devices)
        log = self.record.log
        self._control.output = partial(log.add, "output")
        self._recorder = Recorder(self.record, tuple(self._listeners))
        self._thread = threading.Thread(target=self._train, args=(config, self._control, self._recorder), name="tuitrain-train")
        self._thread.start()

    def pause(self) -> None:
        """Ask the run to wait at the next step boundary."""
        self._ask("pause")

    def resume(self) -> None:
        """Ask a paused run to go on."""
        self._ask("resume")

    def stop(self) -> None:
        """Ask the run to end at the next step boundary, with a last checkpoint."""
        self._ask("stop")

    def interrupt(self) -> None:
        """The same as `stop`, for a run that a signal ends; when the run has ended already, its `on_end` is ended."""
        if self._alive():
            self._ask("interrupt")
            return
        for command in self._commands:
            command.end()

    def checkpoint(self) -> None:
        """Ask for a checkpoint at the next step boundary."""
        self._ask("checkpoint")

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each batch of events of the runs started from now on, from the recorder's thread; it must not block.

        An empty batch is the last one of a run, also of one that was refused. Nothing comes after it but the notices of the run's
        `on_end`, from a thread of its own.
        """
        self._listeners.append(listener)

    def note_samples(self, samples: Sequence[GpuSample]) -> None:
        """Keep what the run's own devices did, beside its metrics; from any thread, at any time."""
        started = self.record.started if self.record is not None else None
        if started is None or self._recorder is None or not self._alive():
            return
        for sample in samples:
            if sample.device in started.device:
                self._recorder.put(sample)

    def join(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds for both threads of the run and for its `on_end`; whether all have ended."""
        if self._thread is None or self._recorder is None:
            return True
        end = time.monotonic() + timeout
        self._thread.join(timeout)
        # The recorder starts `on_end` before it ends.
        if self._thread.is_alive() or not self._recorder.join(max(end - time.monotonic(), 0.0)):
            return False
        return all(command.join(max(end - time.monotonic(), 0.0)) for command in self._commands)

    def _ask(self, request: Request) -> None:
        if self._control is not None and self._alive():
            self._control.ask(request)

    def _alive(self) -> bool:
        return self._thread is not None and self._recorder is not None and (self._thread.is_alive() or not self._recorder.join(0))

    def _train(self, config: RunConfig, control: Control, recorder: Recorder) -> None:
        """The training thread: every event goes to the recorder; whatever is raised becomes a sentence, and the app lives on."""
        run, step = "", 0
        try:
            recorder.put(Progress(phase="importing torch"))
            for event in self._engine()(config, control):
                if isinstance(event, RunStarted) and run:
                    # A group of processes that went on from a checkpoint.
                    event = msgspec.structs.replace(event, run=run)
                elif isinstance(event, RunStarted):
                    event = self._open_folder(config, control, recorder, event)
                    run = event.run
                elif isinstance(event, RunEnded):
                    event = msgspec.structs.replace(event, run=run)
                step = getattr(event, "step", step)
                recorder.put(event)
        except Exception as error:  # a mistake of the engine's or the configuration's ends the run, not the app
            reason = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            if run:
                recorder.put(RunEnded(run=run, state="failed", step=step, error=reason))
            else:
                self.refusal = reason
        finally:
            recorder.finish()

    def _engine(self) -> Train:
        if self._loaded is None:
            with lasting_imports():
                self._loaded = self._load_train()
        return self._loaded

    def _open_folder(self, config: RunConfig, control: Control, recorder: Recorder, started: RunStarted) -> RunStarted:
        """Make the run's folder, now that the engine has found nothing wrong; the event with the run's id."""
        # Not at the top: the store takes its share of the time to the first frame, which needs none of it.
        from tuitrain.runs.folder import RunFolder
        from tuitrain.session.archive import Archive

        resolved = control.resolved or config
        folder = RunFolder.create(self._runs_dir, resolved, started, control.environment)
        control.folder = folder.path
        if self.record is not None:
            self.record.config, self.record.path = resolved, folder.path
        recorder.archive = Archive(folder)
        if resolved.on_end is not None:
            recorder.afterwards = lambda: self._run_on_end(folder)
        return msgspec.structs.replace(started, run=folder.id)

    def _run_on_end(self, folder: RunFolder) -> None:
        """On the recorder's thread, when the run has ended and is archived."""
        from tuitrain.session.on_end import OnEnd

        assert self.record is not None
        command = OnEnd(self.record.config.on_end or "", self.record, folder, self._tell)
        self._commands = [*(earlier for earlier in self._commands if not earlier.join(0)), command]
        command.start()

    def _tell(self, notice: Notice) -> None:
        for listener in self._listeners:
            listener([notice])
