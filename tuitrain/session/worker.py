"""The worker thread: hosts one run at a time in this process, with or without a screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import EndState, Event, GpuSample, Notice, Progress, RunEnded, RunStarted
from tuitrain.runs.record import RunRecord
from tuitrain.session.control import Control, Request
from tuitrain.session.lines import Command
from tuitrain.session.lines.endpoint import Endpoint
from tuitrain.session.recorder import Listener, Recorder
from tuitrain.session.threads import lasting_imports

if TYPE_CHECKING:
    from tuitrain.runs.folder import RunFolder
    from tuitrain.session.on_end import OnEnd
    from tuitrain.session.owned import Owned

SessionState = Literal["idle", "preparing", "running", "paused", "stopping", "ended"]

Train = Callable[[RunConfig, Control], Iterator[Event]]
_Take = Callable[[Control, Recorder], str]

RECORDED_SECONDS = 2.0
"""How long a checkpoint waits until the losses before it are on disk: longer than a lock on them is waited for."""


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
        self._owned: Owned | None = None
        self._end_state: EndState | None = None
        self._endpoint = Endpoint(self._obey)
        self._letting_go = self._let_go = False

    @property
    def screen_attached(self) -> bool:
        """Whether this process shows the run to somebody; the front end says so."""
        return self._endpoint.screen

    @screen_attached.setter
    def screen_attached(self, shown: bool) -> None:
        self._endpoint.screen = shown

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

    def start(self, config: RunConfig, *, resume: Path | None = None, heir_of: int | None = None, queue: bool = False) -> None:
        """Start a run.

        Args:
            config: what to train.
            resume: the folder of the run that goes on with it from its newest valid checkpoint, in the place of a new run.
            heir_of: the process on this host that hands that run over.
            queue: the run, a new one or the one in `resume`, which has not begun, waits first for its turn.

        Raises:
            RuntimeError: one is alive in this session.
        """
        if self._alive():
            raise RuntimeError("a run is alive in this session; stop it first")
        self.refusal = self._owned = self._end_state = None
        self._letting_go = self._let_go = False
        self.record = RunRecord(config)
        self._control = Control(self._free_cuda_devices)
        log = self.record.log
        self._control.output = partial(log.add, "output")
        self._recorder = Recorder(self.record, (*self._listeners, self._endpoint.tell))
        self._control.recorded = partial(self._recorder.wait_until_written, RECORDED_SECONDS)
        take = None if resume is None else partial(self._take, resume, heir_of)
        if queue:
            take = partial(self._queue_up, resume)
        self._thread = threading.Thread(target=self._train, args=(config, self._control, self._recorder, take), name="tuitrain-train")
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

    def let_go(self, timeout: float) -> bool:
        """Let the run end here, with a checkpoint, without its end being told or kept: another process goes on with it.

        Returns:
            Whether it has been let go of; else it has ended by itself.

        Raises:
            ConfigError: it is not at a step boundary within `timeout` seconds; it stops at the next one.
        """
        self._letting_go = True
        self._ask("stop")
        if not self.join(timeout):
            self._letting_go = False
            raise ConfigError(f"the run did not come to the end of a step within {timeout:.0f} s; it stops at the next one.")
        return self._let_go

    def stop_after_all(self) -> None:
        """No process goes on with the run that was let go of: it is stopped."""
        assert self.record is not None
        assert self._owned is not None
        ended = RunEnded(run=self.record.run, state="stopped", step=self.record.step)
        self.record.apply(ended)
        folder = self._owned.folder
        with suppress(OSError):
            folder.write_state(folder.status.with_record(self.record))
        self._owned.end("stopped")
        for listener in self._listeners:
            listener([ended])

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
        afterwards = (self._endpoint.join, *(command.join for command in self._commands))
        return all(join(max(end - time.monotonic(), 0.0)) for join in afterwards)

    def _ask(self, request: Request) -> None:
        if self._control is not None and self._alive():
            self._control.ask(request)

    def _obey(self, command: Command) -> None:
        """What somebody at another terminal wants."""
        if command != "watch":
            self._ask(command)

    def _alive(self) -> bool:
        return self._thread is not None and self._recorder is not None and (self._thread.is_alive() or not self._recorder.join(0))

    def _train(self, config: RunConfig, control: Control, recorder: Recorder, take: _Take | None) -> None:
        """The training thread: every event goes to the recorder; whatever is raised becomes a sentence, and the app lives on."""
        run, step, begun = "", 0, False
        try:
            if take is not None:
                run = take(control, recorder)
            if run and not self._has_its_turn(run, control, recorder):
                return
            recorder.put(Progress(phase="importing torch"))
            for event in self._engine()(config, control):
                if isinstance(event, RunStarted) and begun:
                    # A group of processes that went on from a checkpoint.
                    event = msgspec.structs.replace(event, run=run)
                elif isinstance(event, RunStarted):
                    event = self._open_folder(config, control, recorder, event)
                    run, begun = event.run, True
                elif isinstance(event, RunEnded):
                    if self._letting_go and event.state == "stopped":
                        recorder.afterwards = recorder.release = None
                        self._let_go = True
                        continue
                    if run and not begun and event.state == "interrupted":
                        self._back_to_the_queue(recorder)
                        return
                    event = msgspec.structs.replace(event, run=control.folder.name or run or event.run)
                    self._end_state = event.state
                step = getattr(event, "step", step)
                recorder.put(event)
        except Exception as error:  # a mistake of the engine's or the configuration's ends the run, not the app
            reason = str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"
            if run:
                self._end_state = "failed"
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

    def _queue_up(self, again: Path | None, control: Control, recorder: Recorder) -> str:
        """Make the folder of a run that has not begun this session's own; the run's id."""
        from tuitrain.session.queued import QueuedRun

        assert self.record is not None
        self._owned = queued = QueuedRun(again.absolute(), self.record) if again else QueuedRun.new(self._runs_dir, self.record)
        self._listen(queued.folder.path, self.record, recorder)
        recorder.beat, recorder.release = queued.beat, self._end_ownership
        self._do_on_end(recorder, self.record.config, queued.folder)
        return queued.folder.id

    def _has_its_turn(self, run: str, control: Control, recorder: Recorder) -> bool:
        """Wait until the devices of a queued run are free; whether nobody asked it to end before."""
        from tuitrain.session.queued import QueuedRun
        from tuitrain.session.turn import wait_for_turn

        assert isinstance(self._owned, QueuedRun)
        request = wait_for_turn(self._owned, control, recorder.put)
        if request == "stop":
            self._end_state = "stopped"
            recorder.put(RunEnded(run=run, state="stopped", step=0))
        elif request is not None:
            self._back_to_the_queue(recorder)
        return request is None

    def _back_to_the_queue(self, recorder: Recorder) -> None:
        """A signal ends this process, as when the machine is switched off, and not the wish that the run trains."""
        self._end_state, recorder.afterwards = "interrupted", None

    def _take(self, path: Path, heir_of: int | None, control: Control, recorder: Recorder) -> str:
        """Make the folder of a run that goes on this session's own, before the engine looks into it. A refusal changes nothing in it."""
        from tuitrain.session.owned import TakenRun

        assert self.record is not None
        self._owned = taken = TakenRun(path.absolute(), self.record, heir_of)
        control.folder = taken.folder.path
        self._listen(control.folder, self.record, recorder)
        recorder.beat, recorder.release = taken.beat, self._end_ownership
        for notice in taken.notices:
            recorder.put(notice)
        return ""

    def _open_folder(self, config: RunConfig, control: Control, recorder: Recorder, started: RunStarted) -> RunStarted:
        """The run's folder, where it is new, is made now that the engine has found nothing wrong; the event with the run's id."""
        # Not at the top: the store takes its share of the time to the first frame, which needs none of it.
        from tuitrain.session.owned import NewRun

        assert self.record is not None
        resolved = control.resolved or config
        listening = self._owned is not None
        self._owned = owned = self._owned or NewRun(self._runs_dir)
        archive = owned.begin(resolved, started, control.environment)
        folder, recorder.release = owned.folder, self._end_ownership
        control.folder = folder.path
        self.record.config, self.record.path = resolved, folder.path
        recorder.archive = archive
        if not listening:
            self._listen(folder.path, self.record, recorder)
        self._do_on_end(recorder, resolved, folder)
        return msgspec.structs.replace(started, run=folder.id)

    def _end_ownership(self) -> None:
        """On the recorder's thread, when all is written."""
        if self._owned is not None:
            self._owned.end(self._end_state)

    def _listen(self, folder: Path, record: RunRecord, recorder: Recorder) -> None:
        try:
            self._endpoint.open(folder, record)
        except OSError as error:
            reason = error.strerror or error
            recorder.put(Notice(level="warning", text=f"Other terminals cannot reach this run: no control socket can be made ({reason})."))

    def _do_on_end(self, recorder: Recorder, config: RunConfig, folder: RunFolder) -> None:
        if config.on_end is not None:
            recorder.afterwards = lambda: self._run_on_end(folder)

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
