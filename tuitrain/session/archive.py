"""What the recorder writes of a live run: metrics, TensorBoard, parameters, predictions, state and log.

A disk that refuses costs a notice, never the run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from tuitrain.events import Checkpoint, Eval, Event, Notice, Parameters, Predictions, RunEnded, RunStarted, Step
from tuitrain.files import mode_at
from tuitrain.paths import METRICS, TENSORBOARD
from tuitrain.runs.errors import RunError
from tuitrain.runs.folder import RunFolder
from tuitrain.runs.network import write_network
from tuitrain.runs.record import RunRecord
from tuitrain.runs.store import MetricsWriter
from tuitrain.runs.tensorboard import TensorBoardWriter
from tuitrain.text import clean, first_line, readable

_CURVES = (RunStarted, Step, Eval, Checkpoint, RunEnded)
"""What TensorBoard shows something of."""


class Archive:
    """Writes into one run folder; after it is made, all calls come from one thread.

    Args:
        folder: the run folder.
        logged: how many lines of the record's log are in the folder's already.
        waited_since: when the process that trained the run before was last heard of, where it did not say how the run ended.
        evals: the evaluations of a run that goes on.
        gap: what there is to say of losses that are missing from such a run.

    Attributes:
        gap: the same; whoever hosts the run tells it.

    Raises:
        RunError: the metrics cannot be opened.
    """

    def __init__(
        self,
        folder: RunFolder,
        *,
        logged: int = 0,
        waited_since: float | None = None,
        evals: Sequence[Eval] = (),
        gap: Sequence[Notice] = (),
    ) -> None:
        self.gap = gap
        self._folder = folder
        self._earlier = tuple(evals)
        self._metrics = MetricsWriter(folder.path / METRICS)
        if waited_since is not None:
            self._metrics.note_waiting(waited_since)
        self._tensorboard: TensorBoardWriter | None = None
        self._curves: list[Event] | None = []
        """`None` where tensorboard cannot be imported."""
        self._network: dict[type, Parameters | Predictions] = {}
        self._logged = logged
        self._said: set[str] = set()

    def append(self, batch: Sequence[Event]) -> None:
        """Keep the events for the next `commit`."""
        self._metrics.append(batch)
        if self._curves is not None:
            self._curves += [event for event in batch if isinstance(event, _CURVES)]
        self._network |= {type(event): event for event in batch if isinstance(event, (Parameters, Predictions))}

    def commit(self, record: RunRecord) -> list[Notice]:
        """Write what is kept. What cannot be written is tried again next time; a notice says so the first time, also in the metrics."""
        problems = self._try("metrics", lambda: self._write_metrics(record))
        problems += self._try("TensorBoard file", self._write_curves)
        problems += self._try("parameters and predictions", self._write_network)
        problems += self._try("log", lambda: self._write_log(record))
        problems += self._try("state", lambda: self._folder.write_state(self._folder.status.with_record(record)))
        problems += self._tell_of_return()
        self._metrics.append(problems)
        return problems

    def close(self, record: RunRecord) -> list[Notice]:
        """Write for the last time and close the files, but for the log: see `end_log`."""
        problems = self.commit(record)
        if lost := self._metrics.close():
            reason = self._metrics.error if self._has_folder() else "its folder is not there any more"
            problems.append(Notice(level="warning", text=f"{lost} events could not be written to the run's metrics: {reason}."))
        if self._tensorboard is not None:
            problems += self._try("TensorBoard file", self._tensorboard.close)
        return problems

    def end_log(self, record: RunRecord) -> None:
        """Write down what the log says of `close`."""
        with suppress(OSError):
            self._write_log(record)

    def _write_metrics(self, record: RunRecord) -> None:
        if not self._metrics.commit():
            raise RunError(self._metrics.error or "unknown reason")
        record.let_go()

    def _write_curves(self) -> None:
        if self._curves is None:
            return
        # Made here and not in __init__: tensorboard takes a tenth of a second to import, which the training thread need not wait for.
        if self._tensorboard is None:
            try:
                self._tensorboard = TensorBoardWriter(self._folder.path / TENSORBOARD, self._earlier)
            except OSError:
                raise
            except Exception:  # tensorboard, or what is under it, does not fit this Python, and will not the next time
                self._curves = None
                raise
        # What cannot be written now it keeps itself for the next time.
        curves, self._curves = self._curves, []
        self._tensorboard.write(curves)

    def _write_network(self) -> None:
        for kind, event in list(self._network.items()):
            write_network(self._folder.path, event)
            del self._network[kind]

    def _write_log(self, record: RunRecord) -> None:
        self._logged = self._folder.log_since(record.log, self._logged)

    def _try(self, what: str, write: Callable[[], None]) -> list[Notice]:
        try:
            write()
        except (OSError, RunError) as error:
            if not self._has_folder():
                return self._complain_of_folder()
            return self._complain(what, getattr(error, "strerror", None) or str(error), "; it is tried again")
        except Exception as error:  # also what a library under the file raises: a run must not end for its log
            return self._complain(what, first_line(error), " without it")
        return []

    def _has_folder(self) -> bool:
        try:
            return mode_at(self._folder.path) is not None
        except OSError:  # a disk that fails: nobody can tell
            return True

    def _complain_of_folder(self) -> list[Notice]:
        """What the system says of each file in one that was moved or deleted tells nobody what has happened."""
        gone = f"The run's folder is not there any more: {readable(self._folder.path)}"
        return self._tell_once("folder", f"{gone}. Training goes on, and nothing of it is kept until the folder is back.")

    def _tell_of_return(self) -> list[Notice]:
        """A warning too: a screen shows the newest of them, and the one before is no longer true."""
        if "folder" not in self._said or not self._has_folder():
            return []
        self._said.remove("folder")
        return [Notice(level="warning", text="The run's folder is back, and what came meanwhile is written into it.")]

    def _complain(self, what: str, reason: str, how: str) -> list[Notice]:
        return self._tell_once(what, f"The run's {what} cannot be written: {clean(reason)}. Training goes on{how}.")

    def _tell_once(self, what: str, text: str) -> list[Notice]:
        if what in self._said:
            return []
        self._said.add(what)
        return [Notice(level="warning", text=text)]
