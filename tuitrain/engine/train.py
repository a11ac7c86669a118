"""The training loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from itertools import chain

import msgspec
import torch

from tuitrain.config import ConfigError, RunConfig
from tuitrain.engine.allocator import HOLES_SECONDS_AT_EPOCH, give_back_holes
from tuitrain.engine.checkpoint import BadCheckpoint, Contents
from tuitrain.engine.control import Control, Interrupted
from tuitrain.engine.failures import RunFailed, describe, is_out_of_memory, unusable
from tuitrain.engine.group import Group, is_lost_peer
from tuitrain.engine.own import modules as own_modules
from tuitrain.engine.parameters import notices, parameters_event
from tuitrain.engine.placement import place
from tuitrain.engine.prepare import Prepared, prepare
from tuitrain.engine.resume import NoCheckpoint, check_fits, of_group, required, restore_threads, unsaved
from tuitrain.engine.run import Run
from tuitrain.engine.seeding import run_settings
from tuitrain.engine.strategies.choose import resolve
from tuitrain.engine.strategies.single import Single
from tuitrain.events import EndState, Event, Notice, Progress, RunEnded, State, Stays
from tuitrain.paths import CHECKPOINTS

Spread = Callable[[RunConfig, Control], Iterator[Event]]


def train(config: RunConfig, control: Control, *, group: Group | None = None, spread: Spread | None = None) -> Iterator[Event]:
    """Train a network as `config` says; everything that happens comes as events, in the order of steps; a `Checkpoint` when it is on disk.

    Before `RunStarted` come only `Notice` and `Progress`, and nothing was made on disk. After it the host sets `control.folder`
    and asks for the next event. Where that is absolute from the first, the run in it goes on from its newest valid checkpoint.
    The last event is `RunEnded`, also when training fails; without a `RunStarted` before it the run was asked to end before it began,
    or has failed because it has no checkpoint to go on from.

    Args:
        config: what to train.
        control: the host's side.
        group: the ranks that this process is one of. Without a checkpoint to go on from they begin anew.
        spread: trains a run of the strategy ddp, with the devices named, in processes of their own.

    Raises:
        ConfigError: before `RunStarted`: the configuration, the device, the data or the model cannot be trained with.
    """
    try:
        yield from _train_there(config, control, group, spread)
    except NoCheckpoint as error:
        yield RunEnded(state="failed", step=0, error=str(error))


def _train_there(config: RunConfig, control: Control, group: Group | None, spread: Spread | None) -> Iterator[Event]:
    """In this process or, for ddp, where `spread` says."""
    placement = place(config.device, control.free_cuda_devices)
    names = tuple(map(str, placement.devices))
    control.placed(names)
    yield from placement.notices
    if group is None and resolve(config, placement.devices) == "ddp":
        if spread is None:
            raise ConfigError("strategy: ddp needs a process for each device, and nothing can start them here; use split.")
        if control.folder.is_absolute():
            yield from required(control.folder / CHECKPOINTS)
        yield from spread(msgspec.structs.replace(config, device=",".join(names), strategy="ddp"), control)
        return
    own = placement.devices if group is None else (group.own(placement.devices),)
    with run_settings(config, own, alone=group is None):
        yield from _train(config, control, placement.devices, group)


def _train(config: RunConfig, control: Control, devices: tuple[torch.device, ...], group: Group | None) -> Iterator[Event]:
    again, kept = yield from _going_on(config, control, devices, group)
    yield from own_modules.take_up_edits()
    try:
        prepared = yield from prepare(config, control, devices, group, goes_on=kept is not None)
    except Interrupted:
        yield RunEnded(state=_asked_end(control), step=0)
        return
    finally:
        # Those too that their functions and the first forward call have imported.
        own_modules.note()
    with closing(prepared.dataset):  # whose processes have ended when the run is said to have
        run: Run | None = None
        inexact: list[Notice] = []
        if kept is not None:
            inexact += check_fits(kept, prepared.origin, prepared.batches.per_epoch, unsaved(prepared.model, prepared.devices))
            run, kept = _restored(prepared, control, kept), None
        yield prepared.started((run.step if run else 0) if again else None)
        yield State(state="running")
        yield from inexact
        parameters = parameters_event(prepared.model)
        yield parameters
        yield from notices(parameters)
        if config.compile:
            yield Progress(phase="compiling")  # until the first loss
        try:
            run = run or Run(prepared, control)
            yield from run.clock()
            ended = RunEnded(state=(yield from _loop(run)), step=run.step)
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # whatever goes wrong ends this run alone
            if group is not None and is_lost_peer(error):
                if run is None or (failure := (yield from _last_losses(run, wait=False))) is None:
                    raise  # the group starts again
                error = failure
            if run is None:
                ended = _stillborn(prepared, control, error)
            elif config.compile and control.ending and not isinstance(error, RunFailed):
                ended = yield from _give_up(run, control, error)
            else:
                ended = yield from _fail(run, error)
        finally:
            if run is not None:
                run.keeper.close()
    yield ended


def _going_on(
    config: RunConfig, control: Control, devices: tuple[torch.device, ...], group: Group | None
) -> Generator[Event, None, tuple[bool, Contents | None]]:
    """Whether the run began before, and the checkpoint that it goes on from, with torch's threads as they were."""
    again, kept = control.folder.is_absolute(), None
    if group is not None:
        again, kept = yield from of_group(control.folder, group)
    elif again:
        kept = yield from required(control.folder / CHECKPOINTS)
    if kept is not None:
        names = map(str, devices) if group is None else group.devices
        restore_threads(kept, ",".join(names), resolve(config, devices))
    return again, kept


def _restored(prepared: Prepared, control: Control, kept: Contents) -> Run:
    """The run as it was when it was saved.

    Raises:
        ConfigError: it was another model, or there is no room for what was saved.
    """
    try:
        run = Run(prepared, control)
        run.go_on_from(kept)
    except BadCheckpoint as error:
        raise ConfigError(f"model: {error}") from error
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise unusable(error, prepared.devices) from error
    return run


def _loop(run: Run) -> Generator[Event, None, EndState]:
    """Step after step until the run is finished or was asked to end, and all that was saved is on disk."""
    end: EndState | None = None
    if run.step:
        # It may go on from the end of an epoch, before its evaluation, and be asked to wait before the next step.
        end = yield from _close_step(run) if run.unevaluated else _obey(run)
    while end is None and not run.steps_done:
        try:
            yield from _step(run)
        except Interrupted:  # while samples were read, and before the step began
            end = yield from _obey(run)
        else:
            end = yield from _close_step(run)
    if end in ("stopped", "interrupted") and not run.left:
        yield from run.save("last", ends=True)
    yield from run.keeper.drain()
    yield from run.unsaved_end()
    return end or "finished"


def _close_step(run: Run) -> Generator[Event, None, EndState | None]:
    """What follows a step: evaluation and saving where they are due, and what was asked for; how the run ends, where it does."""
    while True:
        if run.epoch_done or run.steps_done:
            yield from _close_epoch(run)
        elif run.keeper.due(run.step):
            yield from run.save("last")
        yield from run.news()
        give_back_holes()
        if run.steps_done and run.evaluated:
            return "finished"
        end = yield from _obey(run)
        # What gave up the evaluation to leave, and stays, evaluates after all.
        if end is not None or not run.unevaluated:
            return end


def _step(run: Run) -> Iterator[Event]:
    """Forward, backward, update. The loss stays on the device; its events follow later."""
    laps = run.strategy.laps
    laps.lap("other")
    inputs, labels = run.advance()
    laps.lap("data")
    loss = run.strategy.step(inputs, labels)
    run.update()
    run.average()
    laps.lap("update")
    laps.tick(len(labels))
    lr = run.optimizer.param_groups[0]["lr"]
    if not run.leads:
        return
    run.losses.add(run.step, run.epoch, loss, len(labels), lr, last=run.epoch_done or run.steps_done)
    yield from run.losses.ready()


def _close_epoch(run: Run) -> Iterator[Event]:
    """Evaluate and save, at the end of an epoch or of the run. Asked to end meanwhile, it leaves the saving to the end."""
    yield from run.losses.rest()
    yield from run.rest_of_times()
    yield from run.evaluate()
    if run.evaluated:
        yield from run.save("epoch" if run.epoch_done else "last", ends=run.steps_done)
    give_back_holes(HOLES_SECONDS_AT_EPOCH)


def _obey(run: Run) -> Generator[Event, None, EndState | None]:
    """Do what was asked for since the last step; while paused, wait here, and where the evaluation gave up, for the end that it knew of."""
    paused, owes_end = False, run.unevaluated
    while (request := run.take(wait=paused or owes_end)) is not None:
        if request in ("stop", "interrupt"):
            return "stopped" if request == "stop" else "interrupted"
        if request == "leave":
            yield from _leave(run)
            if run.left:
                return "stopped"
            owes_end = False
        elif request == "checkpoint":
            yield from run.save("manual")
        elif request == "pause" and not paused:
            yield from run.losses.rest()
            yield State(state="paused")
        elif request == "resume" and paused:
            yield State(state="running")
            run.losses.restart_clock()
        paused = request == "pause" or (paused and request != "resume")
        if paused:
            yield from run.keeper.drain()
            give_back_holes(0)
    return None


def _leave(run: Run) -> Iterator[Event]:
    """Save, and leave; where the checkpoint is not to be had, stay: whoever went on from the one before would make steps again."""
    why = ""
    for event in chain(run.save("last"), run.keeper.drain()):
        if isinstance(event, Notice):
            why = event.text
        yield event
    run.left = run.is_saved()
    if not run.left:
        run.control.stay()
        yield Stays(text=why)


def _fail(run: Run, error: BaseException) -> Generator[Event, None, RunEnded]:
    """What is left to tell of a run that failed, and its end."""
    in_parts = run.doing == "training" and isinstance(run.strategy, Single)
    failure = error if isinstance(error, RunFailed) else RunFailed(run.step, describe(error, run.doing, run.where, in_parts=in_parts))
    if not isinstance(error, RunFailed):
        if not is_out_of_memory(error):
            run.control.raised(error)
        failure = (yield from _last_losses(run)) or failure
    yield from run.keeper.drain()
    return RunEnded(state="failed", step=failure.step, error=str(failure))


def _give_up(run: Run, control: Control, error: BaseException) -> Generator[Event, None, RunEnded]:
    """End without the step that was begun: Ctrl+C reaches the processes of torch's compiler too, and without them it cannot be made."""
    if earlier := (yield from _last_losses(run)):
        return (yield from _fail(run, earlier))
    yield from run.keeper.drain()
    training = run.doing == "training"
    what = f"step {run.step}" if training else "the evaluation"
    yield Notice(level="warning", text=f"The run ended without {what}: {describe(error, run.doing, run.where)}")
    return RunEnded(state=_asked_end(control), step=run.step - 1 if training else run.step)


def _stillborn(prepared: Prepared, control: Control, error: BaseException) -> RunEnded:
    """The end of a run that has its folder, and whose device or optimizer fails before the first step."""
    if is_out_of_memory(error):
        return RunEnded(state="failed", step=0, error=str(unusable(error, prepared.devices)))
    control.raised(error)
    return RunEnded(state="failed", step=0, error=describe(error, "beginning", prepared.where))


def _last_losses(run: Run, *, wait: bool = True) -> Generator[Event, None, RunFailed | None]:
    """The losses that were not told yet; the failure that they show, where they show one.

    Args:
        wait: for the device; where a peer is lost it may work on what never ends.
    """
    try:
        yield from run.losses.rest() if wait else run.losses.at_hand()
    except RunFailed as failure:
        return failure
    except RuntimeError:
        pass  # the device is gone, and the last losses with it
    return None


def _asked_end(control: Control) -> EndState:
    while (request := control.take(wait=False)) is not None:
        if request == "interrupt":
            return "interrupted"
    return "stopped"
