"""The worker thread: hosts one run at a time in this process, with or without a screen."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec

from tuitrain.config import ConfigError, RunConfig
from tuitrain.events import END_STATES, Event, GpuSample, Progress, Request, RunEnded, RunStarted, Stays, reached
from tuitrain.paths import check_working_directory, weights_file
from tuitrain.python import lasting_imports
from tuitrain.runs.errors import RunError
from tuitrain.runs.record import RunRecord
from tuitrain.session.control import Control
from tuitrain.session.hold import Hold
from tuitrain.session.lines.endpoint import Endpoint
from tuitrain.session.own_code import check_own_code
from tuitrain.session.recorder import Listener, Recorder, tell
from tuitrain.text import clean_lines

SessionState = Literal["idle", "preparing", "running", "paused", "stopping", "ended"]

Train = Callable[[RunConfig, Control], Iterator[Event]]
_Take = Callable[[], str | None]

RECORDED_SECONDS = 2.0
"""How long a checkpoint waits until the losses before it are on disk: longer than a lock on them is waited for."""


@dataclass
class _Hosted:
    """The run in the training thread, as that knows it.

    Attributes:
        run: its id; empty until it has one.
        begun: its folder is open, and its events go there.
        step: the last one that was told.
    """

    config: RunConfig
    control: Control
    recorder: Recorder
    run: str = ""
    begun: bool = False
    step: int = 0


class WorkerSession:
    """Trains in a thread of its own and records in another; `join` joins both, and the one of the run's `on_end`.

    Args:
        load_train: gives the engine's train function. Both are called in the training thread, because one of them imports torch.
        runs_dir: where the run folders are made.
        free_cuda_devices: CUDA ordinals, the one with most free memory first; empty where there is none, and `None` where nobody
            knows.

    Attributes:
        record: the run that goes, or went last.
        refusal: why there is none.
        prints_errors: whether the traceback of a run that fails goes to stderr as well as to its log.
    """

    def __init__(self, load_train: Callable[[], Train], runs_dir: Path, free_cuda_devices: Callable[[], Sequence[int] | None]) -> None:
        self.record: RunRecord | None = None
        self.refusal: str | None = None
        self.prints_errors = False
        self._load_train = load_train
        self._loaded: Train | None = None
        self._free_cuda_devices = free_cuda_devices
        self._listeners: list[Listener] = []
        self._control: Control | None = None
        self._recorder: Recorder | None = None
        self._thread: threading.Thread | None = None
        self._endpoint = Endpoint(self._ask)
        self._hold = Hold(runs_dir, self._endpoint, self._tell)
        self._letting_go = self._let_go = self._over = False
        self._stays: str | None = None
        # Whoever lets a run go may run out of patience at the moment at which it is let go of.
        self._parting = threading.Condition()

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
        if self._control.ending or self.record.state in END_STATES:
            return "stopping"
        if self.record.started is None:
            return "preparing"
        return "paused" if self.record.state == "paused" else "running"

    def start(
        self, config: RunConfig, *, resume: Path | None = None, heir_of: int | None = None, queue: bool = False, paused: bool = False
    ) -> None:
        """Start a run.

        Args:
            config: what to train.
            resume: the folder of the run that goes on with it from its newest valid checkpoint, in the place of a new run.
            heir_of: the process on this host that hands that run over.
            queue: the run, a new one or the one in `resume`, which has not begun, waits first for its turn.
            paused: it waits, before its next step, to be told to go on.

        Raises:
            RuntimeError: one is alive in this session.
        """
        if self._alive():
            raise RuntimeError("a run is alive in this session; stop it first")
        self.refusal = None
        self._letting_go = self._let_go = self._over = False
        self.record = RunRecord(config)
        self._control = Control(self._free_cuda_devices)
        if paused:
            self._control.ask("pause")
        log = self.record.log
        self._control.output = partial(log.add, "output")
        self._control.prints_errors = self.prints_errors
        self._recorder = Recorder(self.record, (*self._listeners, self._endpoint.tell))
        self._control.tell = self._recorder.put
        self._control.recorded = partial(self._recorder.wait_until_written, RECORDED_SECONDS)
        self._hold.begin(self.record, self._control, self._recorder)
        take: _Take | None = None if resume is None else partial(self._hold.take, resume, heir_of)
        if queue:
            take = partial(self._hold.queue_up, resume)
        hosted = _Hosted(config, self._control, self._recorder)
        self._thread = threading.Thread(target=self._train, args=(hosted, take), name="tuitrain-train")
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
        self._hold.end_commands()

    def checkpoint(self) -> None:
        """Ask for a checkpoint at the next step boundary."""
        self._ask("checkpoint")

    def let_go(self, timeout: float) -> bool:
        """Let the run end here, with a checkpoint, without its end being told or kept: another process goes on with it.

        Returns:
            Whether it has been let go of; else it has ended by itself.

        Raises:
            ConfigError: its checkpoint cannot be saved, and it goes on here; or it is not at a step boundary within `timeout` seconds,
                and stops at the next one.
        """
        assert self._thread is not None
        assert self._recorder is not None
        with self._parting:
            self._letting_go, self._stays = True, None
        self._ask("leave")
        with self._parting:
            self._parting.wait_for(lambda: self._over or self._stays is not None, timeout)
            self._letting_go = False
            if self._stays is not None:
                raise ConfigError(f"the run stays here. {self._stays}".rstrip())
            if not self._over and not self._let_go:
                raise ConfigError(f"the run did not come to the end of a step within {timeout:.0f} s; it stops at the next one.")
        # Only what it did is still written, which ends by itself; the `on_end` of earlier runs is nothing to wait for.
        self._thread.join()
        self._recorder.join()
        self._endpoint.join(timeout)
        return self._let_go

    def stop_after_all(self) -> None:
        """No process goes on with the run that was let go of: it is stopped, and its `on_end` follows."""
        assert self.record is not None
        ended = RunEnded(run=self.record.run, state="stopped", step=self.record.step)
        self.record.apply(ended)
        self._hold.end_stopped()
        tell(self._listeners, [ended])
        self._hold.do_on_end()

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
        afterwards = (self._endpoint.join, *self._hold.joins())
        return all(join(max(end - time.monotonic(), 0.0)) for join in afterwards)

    def _ask(self, request: Request) -> None:
        if self._control is not None and self._alive():
            self._control.ask(request)

    def _alive(self) -> bool:
        return self._thread is not None and self._recorder is not None and (self._thread.is_alive() or not self._recorder.join(0))

    def _train(self, hosted: _Hosted, take: _Take | None) -> None:
        """The training thread: every event goes to the recorder; whatever is raised becomes a sentence, and the app lives on."""
        control, recorder = hosted.control, hosted.recorder
        try:
            check_working_directory()
            if take is not None:
                hosted.run = take() or ""
            if hosted.run and not self._hold.wait_for_turn():
                return
            for notice in check_own_code(hosted.config, control.folder if control.folder.is_absolute() else None):
                recorder.put(notice)
            if hosted.config.weights is not None and not control.folder.is_absolute():
                weights_file(hosted.config.weights)
            recorder.put(Progress(phase="importing torch"))
            for event in self._engine()(hosted.config, control):
                if control.lost is not None:
                    raise RunError(control.lost)
                if (told := self._told(event, hosted)) is not None:
                    hosted.step = reached(hosted.step, told)
                    recorder.put(told)
        except BaseException as error:  # a mistake of the engine's, the configuration's or the person's code ends the run, not the app
            if not isinstance(error, ConfigError):
                control.raised(error)
            reason = clean_lines(str(error) if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}")
            if hosted.run:
                self._hold.end_state = "failed"
                recorder.put(RunEnded(run=hosted.run, state="failed", step=hosted.step, error=reason))
            else:
                self.refusal = reason
        finally:
            recorder.finish()
            self._part()

    def _told(self, event: Event, hosted: _Hosted) -> Event | None:
        """An event of the engine's with what only the session knows, as it is told; `None` for one that is not."""
        match event:
            case RunStarted() if hosted.begun:  # by a group of processes that went on from a checkpoint
                return msgspec.structs.replace(event, run=hosted.run)
            case RunStarted():
                opened = self._hold.open(hosted.config, event)
                hosted.run, hosted.begun = opened.run, True
                return opened
            case Stays():
                self._part(stays=event.text)
                return None
            case RunEnded():
                return self._told_end(event, hosted)
            case _:
                return event

    def _told_end(self, ended: RunEnded, hosted: _Hosted) -> RunEnded | None:
        """See `_told`."""
        if ended.state == "stopped" and self._lets_go():
            hosted.recorder.afterwards = hosted.recorder.release = None
            return None
        if hosted.run and not hosted.begun and ended.state == "interrupted":
            self._hold.back_to_the_queue()
            return None
        self._hold.end_state = ended.state
        run, step = hosted.control.folder.name or hosted.run or ended.run, ended.step
        if not hosted.begun and self.record is not None:
            # The engine has not found out how far the run is that would have gone on.
            step = max(step, self.record.step)
        return msgspec.structs.replace(ended, run=run, step=step)

    def _lets_go(self) -> bool:
        """Whether another process is to go on with the run that ends here; on the training thread."""
        with self._parting:
            self._let_go = self._letting_go
            return self._let_go

    def _part(self, stays: str | None = None) -> None:
        """Tell whoever lets the run go that it is over here, or why it stays; on the training thread."""
        with self._parting:
            self._over, self._stays = stays is None, stays
            self._parting.notify_all()

    def _engine(self) -> Train:
        if self._loaded is None:
            with lasting_imports():
                self._loaded = self._load_train()
        return self._loaded

    def _tell(self, event: Event) -> None:
        tell(self._listeners, [event])
