"""The training loop."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Generator, Iterator

import msgspec
import torch

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.checkpoint import Contents, newest
from tuitrain.engine.control import Control as Control
from tuitrain.engine.data import Interrupted
from tuitrain.engine.failures import RunFailed, describe, is_out_of_memory
from tuitrain.engine.group import Group, is_lost_peer
from tuitrain.engine.parameters import notices, parameters_event
from tuitrain.engine.placement import place
from tuitrain.engine.prepare import prepare
from tuitrain.engine.run import Run
from tuitrain.engine.seeding import run_settings, seed_rank
from tuitrain.engine.strategies.choose import resolve
from tuitrain.events import EndState, Event, RunEnded, State

Spread = Callable[[RunConfig, Control], Iterator[Event]]


def train(config: RunConfig, control: Control, *, group: Group | None = None, spread: Spread | None = None) -> Iterator[Event]:
    """Train a network as `config` says; everything that happens comes as events, in the order of steps.

    Before `RunStarted` come only `Notice` and `Progress`, and nothing was made on disk. After it the host sets `control.folder`
    and asks for the next event. The last event is `RunEnded`, also when training fails; without a `RunStarted` before it
    the run was asked to end before it began.

    Args:
        config: what to train.
        control: the host's side.
        group: the ranks that this process is one of. Where `control.folder` holds a checkpoint already, they go on from it.
        spread: trains a run of the strategy ddp, with the devices named, in processes of their own.

    Raises:
        ConfigError: before `RunStarted`: the configuration, the device, the data or the model cannot be trained with.
    """
    placement = place(config.device, control.free_cuda_devices)
    names = tuple(map(str, placement.devices))
    control.placed(names)
    yield from placement.notices
    if group is None and resolve(config, placement.devices) == "ddp":
        if spread is None:
            raise ConfigError("strategy: ddp needs a process for each device, and nothing can start them here; use split.")
        yield from spread(msgspec.structs.replace(config, device=",".join(names), strategy="ddp"), control)
        return
    own = placement.devices if group is None else (placement.devices[group.rank],)
    with run_settings(config, own):
        yield from _train(config, control, placement.devices, group)


def _train(config: RunConfig, control: Control, devices: tuple[torch.device, ...], group: Group | None) -> Iterator[Event]:
    try:
        prepared = yield from prepare(config, control, devices, group)
    except Interrupted:
        yield RunEnded(state=_asked_end(control), step=0)
        return
    again = group is not None and control.folder.is_absolute()
    kept = newest(control.folder / "checkpoints") if again else None
    yield prepared.started((kept.position.step if kept else 0) if again else None)
    yield State(state="running")
    parameters = parameters_event(prepared.model)
    yield parameters
    yield from notices(parameters)
    run = Run(prepared, control)
    try:
        _go_on(run, config, group, kept)
        end = yield from _loop(run)
    except Exception as error:  # whatever goes wrong in training ends this run, and only this run
        if group is not None and is_lost_peer(error):
            raise  # the group starts again
        yield from _fail(run, error)
    else:
        yield RunEnded(state=end, step=run.step)


def _go_on(run: Run, config: RunConfig, group: Group | None, kept: Contents | None) -> None:
    if kept is not None:
        run.go_on_from(kept)
    if group is not None:
        seed_rank(config.seed, group.rank, run.step)


def _loop(run: Run) -> Generator[Event, None, EndState]:
    """Step after step until the run is finished or was asked to end."""
    while not run.steps_done:
        yield from _step(run)
        if run.epoch_done or run.steps_done:
            yield from _close_epoch(run)
        elif run.keeper.due(run.step):
            yield from run.save("last")
        if run.steps_done and run.evaluated:
            break
        end = yield from _obey(run)
        if end is not None:
            yield from run.save("last")
            return end
    return "finished"


def _step(run: Run) -> Iterator[Event]:
    """Forward, backward, update. The loss stays on the device; its events follow later."""
    run.advance()
    inputs, labels = run.batches.get(run.epoch, run.position, run.step)
    loss = run.strategy.step(inputs, labels)
    run.update()
    run.optimizer.zero_grad()
    lr = run.optimizer.param_groups[0]["lr"]
    if not run.leads:
        return
    run.losses.add(run.step, run.epoch, loss, len(labels), lr, run.strategy, last=run.epoch_done or run.steps_done)
    yield from run.losses.ready()


def _close_epoch(run: Run) -> Iterator[Event]:
    """Evaluate and save, at the end of an epoch or of the run. Asked to end meanwhile, it leaves the saving to the end."""
    yield from run.losses.rest()
    yield from run.evaluate()
    if run.evaluated:
        yield from run.save("epoch" if run.epoch_done else "last")


def _obey(run: Run) -> Generator[Event, None, EndState | None]:
    """Do what was asked for since the last step; while paused, wait here."""
    paused = False
    while (request := run.control.take(wait=paused)) is not None:
        if request in ("stop", "interrupt"):
            return "stopped" if request == "stop" else "interrupted"
        if request == "checkpoint":
            yield from run.save("manual")
        elif request == "pause" and not paused:
            yield from run.losses.rest()
            yield State(state="paused")
        elif request == "resume" and paused:
            yield State(state="running")
            run.losses.restart_clock()
        paused = request == "pause" or (paused and request != "resume")
    return None


def _fail(run: Run, error: Exception) -> Iterator[Event]:
    """What is left to tell of a run that failed."""
    failure = error if isinstance(error, RunFailed) else RunFailed(run.step, describe(error, run.doing, run.where))
    if not isinstance(error, RunFailed):
        if not is_out_of_memory(error):
            traceback.print_exception(error)  # to the log, for the person whose model it is
        try:
            yield from run.losses.rest()
        except RunFailed as earlier:
            failure = earlier
        except RuntimeError:
            pass  # the device is gone, and the last losses with it
    yield RunEnded(state="failed", step=failure.step, error=str(failure))


def _asked_end(control: Control) -> EndState:
    while (request := control.take(wait=False)) is not None:
        if request == "interrupt":
            return "interrupted"
    return "stopped"
