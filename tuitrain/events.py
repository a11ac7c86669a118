"""What a run says, as frozen types: the one language between the engine, the store, the screens and users' scripts.

`encode` turns an event into the JSON object that `tuitrain run --json` prints. `Losses`, `StepTimes`, `Progress`, `GpuSample`,
`TensorMemory`, `Parameters`, `Predictions` and `Stays` stay inside: they feed the host, the store and the screens and are never printed.
Steps and epochs count from 1; a non-finite float is `null` in JSON.
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

RunState = Literal["queued", "running", "paused", "finished", "stopped", "failed", "interrupted", "lost"]
EndState = Literal["finished", "stopped", "failed", "interrupted"]
DataKind = Literal["cifar10", "imagefolder", "synthetic", "random", "custom"]
Targets = Literal["classes", "positions", "numbers"]
"""What the network's outputs are compared with: the class of each sample; the class of each of its positions; or other numbers, of which
none is simply right, so that there is no accuracy."""
CheckpointKind = Literal["epoch", "last", "best", "manual"]
Command = Literal["pause", "resume", "stop", "checkpoint"]
"""What a person can tell a live run to do."""
Request = Literal[Command, "interrupt", "leave"]
"""What a run can be asked to do while it lives, at the end of a step; "leave" ends it only where its checkpoint of that step is saved."""

LIVE_STATES: tuple[RunState, ...] = ("queued", "running", "paused")
END_STATES: tuple[EndState, ...] = get_args(EndState)
REQUESTS: tuple[Request, ...] = get_args(Request)


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Base of every event; `event` in its JSON is the tag of the subclass."""


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """The configuration and the data are good and the first step comes next. `run` is filled in by the host, which makes the folder.

    Attributes:
        readers: how many processes read the training samples anew in each epoch, for each rank; 0 where these are in memory.
    """

    run: str = ""
    recipe: str
    device: tuple[str, ...]
    strategy: str
    data: DataKind
    parameters: int
    train_samples: int
    test_samples: int
    targets: Targets = "classes"
    readers: int = 0
    resumed_from: int | None = None
    steps_per_epoch: int
    total_steps: int

    def next_evaluation(self, step: int) -> int:
        """The step with which the next evaluation after `step` comes."""
        return min((step // self.steps_per_epoch + 1) * self.steps_per_epoch, self.total_steps)


class Replica(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one replica got in one step; an idle replica has `None` everywhere. Shapes are sizes of the real tensors.

    `inputs` and `outputs` are there only where the model takes or gives several tensors; `input` and `output` are then the first ones.
    """

    index: int
    device: str
    input: tuple[int, ...] | None
    output: tuple[int, ...] | None
    loss: float | None
    inputs: tuple[tuple[int, ...], ...] | None = None
    outputs: tuple[tuple[int, ...], ...] | None = None


class Replicas(Event, frozen=True, kw_only=True, tag="replicas"):
    """The pattern of shapes at the first step, and at each step where it is another one than in the step before."""

    step: int
    batch: tuple[int, ...]
    gathered: tuple[int, ...] | None = None
    replicas: tuple[Replica, ...]


class ReplicaStat(msgspec.Struct, frozen=True, kw_only=True):
    """How one replica is doing. `memory` is bytes of tensors on its device, `None` where torch does not count them."""

    index: int
    loss: float | None
    step_seconds: float | None
    samples_per_second: float | None
    memory: int | None


class ReplicaStats(Event, frozen=True, kw_only=True, tag="replica_stats"):
    """At most once a second."""

    step: int
    replicas: tuple[ReplicaStat, ...]


class Phases(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Seconds, by what training steps spent them on. `data` is making the batch, `update` the optimizer's part, `other` the loop around it.

    `communication` is all that replicas cost beside their own work: parameters and gradients on their way, adding up, and waiting for
    each other. What cannot be told apart stays where it happens: in `dp` scattering, copying the model and gathering are part of
    `forward` and `backward`; in `ddp` the part of the reduction that runs beside backward costs nothing and is not counted.
    """

    data: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    communication: float = 0.0
    update: float = 0.0
    other: float = 0.0

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.data + self.forward + self.backward + self.communication + self.update + self.other

    def __add__(self, more: Phases) -> Phases:
        return Phases(**{name: getattr(self, name) + getattr(more, name) for name in self.__struct_fields__})

    def __truediv__(self, count: float) -> Phases:
        return Phases(**{name: getattr(self, name) / count for name in self.__struct_fields__})


class StepTimes(Event, frozen=True, kw_only=True, tag="step_times"):
    """Where the time of the measured steps since the last such event went, evaluation, saving and pauses left out; at most once a second
    and at the end of each epoch. On a GPU only some steps are measured.

    `phases` is the time of the first device, or in `ddp` the mean of the ranks; its parts add up to the steps' whole time. `replicas`: of
    each replica its own forward and backward, of each rank all phases; empty where nobody measures them apart.
    """

    strategy: str
    devices: tuple[str, ...]
    steps: int
    samples: int
    phases: Phases
    replicas: tuple[Phases, ...] = ()


class Step(Event, frozen=True, kw_only=True, tag="step"):
    """The loss of exactly this step. `samples_per_second`: since the previous step event, without evaluation, saving and pauses."""

    step: int
    epoch: int
    loss: float
    lr: float
    samples_per_second: float


class Losses(Event, frozen=True, kw_only=True, tag="losses"):
    """Every step's loss since the last such event, for the store: `losses[i]` belongs to step `first_step + i`, all in one epoch.

    `times` are Unix times in seconds.
    """

    first_step: int
    epoch: int
    losses: tuple[float, ...]
    times: tuple[float, ...]


class Eval(Event, frozen=True, kw_only=True, tag="eval"):
    """`loss`: mean over samples. `loss_sum`: sum over test batches of `batch_size` of their mean losses. `accuracy`: 0 to 1, of samples or
    of their positions; NaN where the targets are numbers."""

    step: int
    epoch: int
    loss: float
    loss_sum: float
    accuracy: float


class Clock(Event, frozen=True, kw_only=True, tag="clock"):
    """How long a run with a target accuracy has trained, by the rules of speed runs; some times a second, and after each evaluation.

    `seconds`: fitting the model to the data, all steps up to `step`, and the last evaluation of the run. Loading data, warming up, other
    evaluations, saving and pauses do not count. `target` is 0 to 1; `crossed_epoch` and `crossed_seconds` are those of the first
    evaluation that reached it.
    """

    step: int
    seconds: float
    target: float
    crossed_epoch: int | None = None
    crossed_seconds: float | None = None


class Checkpoint(Event, frozen=True, kw_only=True, tag="checkpoint"):
    """A checkpoint is complete and has its final name. A `best` one names a folder that was announced before."""

    step: int
    path: str
    kind: CheckpointKind


class Notice(Event, frozen=True, kw_only=True, tag="notice"):
    """A sentence for the person."""

    level: Literal["info", "warning"] = "info"
    text: str


class State(Event, frozen=True, kw_only=True, tag="state"):
    """The run changed its state."""

    state: RunState


class RunEnded(Event, frozen=True, kw_only=True, tag="run_ended"):
    """The last event of a run; `error` is the reason of a `failed` one."""

    run: str = ""
    state: EndState
    step: int
    error: str | None = None


class Stays(Event, frozen=True, kw_only=True, tag="stays"):
    """The run was asked to leave and goes on where it is: nobody could go on from this step. `text` says why."""

    text: str


class Printed(Event, frozen=True, kw_only=True, tag="printed"):
    """A line for the run's log alone, such as one of a traceback: it belongs between what was told before and after it."""

    text: str


BYTES = "B"


class Progress(Event, frozen=True, kw_only=True, tag="progress"):
    """How far a phase without steps is ("decoding images", "evaluating"); `total` is `None` where nobody knows, `unit` may be `BYTES`."""

    phase: str
    done: int = 0
    total: int | None = None
    unit: str = ""


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter of the network: `count` numbers on `device`."""

    name: str
    shape: tuple[int, ...]
    count: int
    device: str
    trainable: bool


class Parameters(Event, frozen=True, kw_only=True, tag="parameters"):
    """What the network is made of. `warnings`: one sentence for each layer that is kept where torch does not see it."""

    rows: tuple[Parameter, ...]
    warnings: tuple[str, ...] = ()


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """What the network says of one test sample. `truth` and `predicted` are class numbers, `confidence` is 0 to 1.

    `image`: 32·32·3 bytes, row by row, red, green and blue of each pixel; images of another size are brought to this one; `None` where
    samples are not images of bytes.
    `file`: the path of the image in the data folder, as "test/deer/0123.jpg"; `None` where samples are not files.
    """

    index: int
    truth: int
    predicted: int
    confidence: float
    image: bytes | None = None
    file: str | None = None


class Confusion(msgspec.Struct, frozen=True, kw_only=True):
    """Of the `samples` test samples of class number `truth`, `count` were taken for class number `predicted`."""

    truth: int
    predicted: int
    count: int
    samples: int


class Predictions(Event, frozen=True, kw_only=True, tag="predictions"):
    """How the network did on the test samples, after the evaluation at `step`.

    `confusion[truth][predicted]` counts test samples; it is empty where there are too many classes to read it, and then `largest` has its
    largest cells beside the diagonal, the largest first. `samples`: the worst mistakes first (the surest wrong answers), then right
    answers, the least sure first. `of_cells`: others in the same order, so that there are some of the cells of `confusion`, or of each of
    `largest`.
    """

    step: int
    epoch: int
    classes: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    samples: tuple[Prediction, ...]
    of_cells: tuple[Prediction, ...] = ()
    largest: tuple[Confusion, ...] = ()


class GpuSample(Event, frozen=True, kw_only=True, tag="gpu_sample"):
    """One device, the cpu too, at one moment (Unix seconds): bytes, percent, watts, °C; `None` where nobody says."""

    time: float
    device: str
    memory_used: int | None
    utilization: int | None
    power: float | None
    temperature: int | None


class TensorMemory(Event, frozen=True, kw_only=True, tag="tensor_memory"):
    """What torch holds on one CUDA device of the run at one moment (Unix seconds); at most once a second.

    `device` is "cuda:N". `uuid` is the card's as the driver writes it ("GPU-…"), `None` where torch does not say. `allocated` is bytes of
    tensors, `reserved` all bytes that torch took from the driver for tensors.
    """

    time: float
    device: str
    uuid: str | None
    allocated: int
    reserved: int


PUBLIC = (RunStarted, Replicas, ReplicaStats, Step, Eval, Clock, Checkpoint, Notice, State, RunEnded)


def reached(step: int, event: Event) -> int:
    """How far a run is after `event` that was at `step` before. A checkpoint comes when it is on disk: steps have been made since."""
    if isinstance(event, RunStarted):
        return event.resumed_from or 0
    if isinstance(event, Losses):
        return max(step, event.first_step + len(event.losses) - 1)
    return max(step, getattr(event, "step", 0))


def encode(event: Event) -> str:
    """The event as one line of JSON, without the newline."""
    return msgspec.json.encode(event).decode()
