"""What a session has of its run: the folder with its claim, the control socket, and the command that follows the run's end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from tuitrain.config import RunConfig
from tuitrain.events import EndState, Event, Notice, Progress, RunEnded, RunStarted
from tuitrain.paths import working_directory_is_gone
from tuitrain.runs.record import RunRecord
from tuitrain.session.control import Control
from tuitrain.session.lines.endpoint import Endpoint
from tuitrain.session.recorder import Recorder

if TYPE_CHECKING:
    from tuitrain.runs.crash import CrashNote
    from tuitrain.runs.silence import Wait
    from tuitrain.session.on_end import OnEnd
    from tuitrain.session.owned import Owned

# Nothing of the store at the top: it takes its share of the time to the first frame, which needs none of it.


class Hold:
    """Belongs to one session, a run at a time; the training thread calls it where nothing else is said.

    Args:
        runs_dir: where the folders of new runs are made.
        endpoint: listens for other terminals.
        tell: hears what is no event of the run: the notices of its `on_end`, and what is waited for before it can be taken.
    """

    def __init__(self, runs_dir: Path, endpoint: Endpoint, tell: Callable[[Event], None]) -> None:
        self.end_state: EndState | None = None
        """How the run ended, where it said so."""
        self._runs_dir = runs_dir
        self._endpoint = endpoint
        self._tell = tell
        self._owned: Owned | None = None
        self._crash: CrashNote | None = None
        self._commands: list[OnEnd] = []

    def begin(self, record: RunRecord, control: Control, recorder: Recorder) -> None:
        """Another run, of which nothing is held yet; before its threads begin."""
        self._record, self._control, self._recorder = record, control, recorder
        self._owned = self.end_state = None

    def take(self, path: Path, heir_of: int | None) -> None:
        """Make the folder of a run that goes on this session's own, before the engine looks into it. A refusal changes nothing in it.

        Raises:
            RunError: it cannot be taken.
        """
        from tuitrain.session.owned import TakenRun

        self._owned = taken = TakenRun(path.absolute(), self._record, heir_of, self._watching())
        self._control.folder = taken.folder.path
        self._listen(taken.folder.path)
        self._recorder.beat, self._recorder.release = taken.beat, self._end
        for notice in taken.notices:
            self._recorder.put(notice)

    def queue_up(self, again: Path | None) -> str:
        """Make the folder of a run that has not begun, a new one or that in `again`, this session's own; the run's id.

        Raises:
            ConfigError: it cannot be made or taken.
        """
        from tuitrain.session.queued import QueuedRun

        record = self._record
        queued = QueuedRun(again.absolute(), record, self._watching()) if again else QueuedRun.new(self._runs_dir, record)
        self._owned = queued
        self._listen(queued.folder.path)
        self._recorder.beat, self._recorder.release = queued.beat, self._end
        self._recorder.afterwards = self.do_on_end
        return queued.folder.id

    def wait_for_turn(self) -> bool:
        """Wait until the devices of a queued run are free; whether nobody asked it to end before.

        Raises:
            RunError: its folder is gone.
        """
        from tuitrain.session.queued import QueuedRun
        from tuitrain.session.turn import wait_for_turn

        assert isinstance(self._owned, QueuedRun)
        request = wait_for_turn(self._owned, self._control, self._recorder.put)
        if request == "stop":
            self.end_state = "stopped"
            self._recorder.put(RunEnded(run=self._owned.folder.id, state="stopped", step=0))
        elif request is not None:
            self.back_to_the_queue()
        elif working_directory_is_gone():
            # It went while the run waited: what needs none is not held up by that.
            os.chdir(self._owned.folder.path)
        return request is None

    def back_to_the_queue(self) -> None:
        """A signal ends this process, as when the machine is switched off, and not the wish that the run trains."""
        self.end_state, self._recorder.afterwards = "interrupted", None

    def open(self, config: RunConfig, started: RunStarted) -> RunStarted:
        """The run's folder, where it is new, is made now that the engine has found nothing wrong; the event with the run's id.

        Raises:
            ConfigError: it cannot be written.
        """
        from tuitrain.runs.crash import CrashNote
        from tuitrain.runs.stored import StoredRun
        from tuitrain.session.own_code import place_of_code
        from tuitrain.session.owned import NewRun

        resolved = self._control.resolved or config
        listening = self._owned is not None
        self._owned = owned = self._owned or NewRun(self._runs_dir)
        archive = owned.begin(resolved, started, {**self._control.environment, **place_of_code(resolved)})
        folder, self._recorder.release = owned.folder, self._end
        self._control.folder = folder.path
        self._record.config, self._record.path = resolved, folder.path
        self._record.leave_on_disk(StoredRun(folder.path))
        self._recorder.taken_over_by, self._recorder.lost = owned.taken_over_by, self._lost
        self._recorder.archive = archive
        self._crash = CrashNote(folder.path)
        for notice in archive.gap:
            self._recorder.put(notice)
        if not listening:
            self._listen(folder.path)
        self._recorder.afterwards = self.do_on_end
        return msgspec.structs.replace(started, run=folder.id)

    def end_stopped(self) -> None:
        """Nobody goes on with the run that was let go of: its folder says so, and others may have it. From any thread."""
        assert self._owned is not None
        folder = self._owned.folder
        with suppress(OSError):
            folder.write_state(folder.status.with_record(self._record))
        self._owned.end("stopped")

    def do_on_end(self) -> None:
        """The run has ended and is archived: its command follows, where it has one. From any thread."""
        if self._owned is None or self._record.config.on_end is None:
            return
        from tuitrain.session.on_end import OnEnd

        command = OnEnd(self._record.config.on_end, self._record, self._owned.folder, self._tell)
        self._commands = [*(earlier for earlier in self._commands if not earlier.join(0)), command]
        command.start()

    def end_commands(self) -> None:
        """End what runs after the ends of runs. From any thread."""
        for command in self._commands:
            command.end()

    def joins(self) -> Sequence[Callable[[float], bool]]:
        """For each command that was started: waits for it so many seconds; whether it has ended. From any thread."""
        return [command.join for command in self._commands]

    def _watching(self) -> Wait:
        """How to wait while it is watched whether somebody else still has the run."""
        from tuitrain.runs.silence import announced

        return announced(lambda text: self._tell(Notice(text=text)), self._look_on)

    def _look_on(self, progress: Progress) -> bool:
        """A second of that; whether the run is to end meanwhile."""
        from tuitrain.runs.silence import LOOK_SECONDS

        # The recorder has nothing to apply yet: the record is to be filled with what the folder keeps.
        self._record.phase = progress
        self._tell(progress)
        return self._control.ends_within(LOOK_SECONDS)

    def _lost(self, who: str) -> None:
        """On the recorder's thread: this process stood still for so long that another one took the run."""
        self._control.give_up(f"{who} has taken the run over, because this process gave no sign for some time; it goes on there.")

    def _end(self) -> None:
        """On the recorder's thread, when all is written."""
        if self._crash is not None:
            self._crash.close()
            self._crash = None
        if self._owned is not None:
            self._owned.end(self.end_state)

    def _listen(self, folder: Path) -> None:
        try:
            self._endpoint.open(folder, self._record)
        except OSError as error:
            text = f"Other terminals cannot reach this run: no control socket can be made ({error.strerror or error})."
            self._recorder.put(Notice(level="warning", text=text))
