"""A run between two steps: what it trains with, and how far it is."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import suppress

from torch import Tensor

from tuitrain.engine.averaging import Lookahead
from tuitrain.engine.checkpoint import Contents, Position, restore
from tuitrain.engine.control import Control, Interrupted
from tuitrain.engine.criterion import make_criterion
from tuitrain.engine.evaluate import Evaluator, Score
from tuitrain.engine.graphs import step_graphs
from tuitrain.engine.keeper import Keeper
from tuitrain.engine.losses import LossLog
from tuitrain.engine.models import model_dtype
from tuitrain.engine.optim import autocast, make_optimizer, may_fuse, update
from tuitrain.engine.prepare import Prepared
from tuitrain.engine.schedule import make_schedule
from tuitrain.engine.seeding import seed_rank
from tuitrain.engine.strategies import Strategy
from tuitrain.engine.strategies.choose import make_strategy
from tuitrain.engine.target import TargetClock
from tuitrain.events import CheckpointKind, Eval, Event, Notice
from tuitrain.paths import CHECKPOINTS


class Run:
    """What the loop works on.

    Attributes:
        update: moves the parameters by their gradients, which are no more then.
        step: the step that is being done, or was done last; 0 before the first.
        epoch: the epoch of that step, from 1.
        position: the place of that step in its epoch, from 0.
        evaluated: the epoch of that step is over, and evaluated where there is test data.
        doing: "training" or "evaluating", for the sentence about what failed.
        where: the devices, for the same sentence.
        left: it was asked to leave, and all of it is saved: it ends here, and another process goes on.
        leads: this process tells of the run and saves it; in a group only rank 0 does.
        take: gives the next request to obey; in a group all ranks get it after the same step.
    """

    def __init__(self, prepared: Prepared, control: Control) -> None:
        config, model, devices = prepared.config, prepared.model, prepared.devices
        self.control = control
        self.take = control.take if prepared.group is None else prepared.group.take
        self.where = prepared.where
        self.batches = prepared.batches
        self.total_steps = prepared.total_steps
        self.optimizer = make_optimizer(config, model, fused=may_fuse(model, config.optimizer))
        self._set_rates = make_schedule(config, self.optimizer, prepared.total_steps)
        self._averaging = Lookahead(model, prepared.total_steps) if config.averaging == "lookahead" else None
        self.update = update(self.optimizer, config.max_grad_norm)
        criterion = make_criterion(config)
        modules = prepared.trained
        self.strategy: Strategy = make_strategy(config, devices, modules, criterion, prepared.group)
        self._graphs = step_graphs(config, self.strategy, model, self.optimizer, self.update, devices[0])
        if self._graphs is not None:
            self.update = self._graphs.update
        self._target = None if config.target_accuracy is None else TargetClock(config.target_accuracy, prepared.fit_seconds)
        self.losses = LossLog(devices[0], config.log_every_steps, self.strategy, self._target, self.batches.flaw_of)
        folder, averaging = control.folder / CHECKPOINTS, self._averaging
        self.keeper = Keeper(folder, config, model, self.optimizer, devices, prepared.origin, control.recorded, averaging)
        self.leads = prepared.group is None or prepared.group.leads
        self._group, self._seed = prepared.group, config.seed
        self._model, self._devices = model, devices
        self._classes = prepared.dataset.classes
        self._evaluator: Evaluator | None = None
        if prepared.dataset.test is not None:
            self._evaluator = Evaluator(
                model=modules[devices[0]],
                criterion=criterion,
                split=prepared.dataset.test,
                batch_size=config.batch_size,
                dtype=model_dtype(config),
                batch_dim=config.batch_dim,
                autocast=autocast(config, devices[0]),
                ending=lambda: control.ending,
                tta=config.tta,
            )
        self.step = 0
        self.epoch = 1
        self.position = -1
        self.evaluated = False
        self.left = False
        self.doing = "training"
        self._flaw_told = False
        # What the evaluation of this very step says.
        self._score: Score | None = None

    @property
    def epoch_done(self) -> bool:
        """The last step ended its epoch."""
        return self.position + 1 == self.batches.per_epoch

    @property
    def steps_done(self) -> bool:
        """The last step was the run's last."""
        return self.step >= self.total_steps

    @property
    def unevaluated(self) -> bool:
        """The last step ended its epoch or the run, and is not evaluated yet; after `evaluate` only where the run was asked to end."""
        return (self.epoch_done or self.steps_done) and not self.evaluated

    def advance(self) -> tuple[Tensor, Tensor]:
        """Go to the next step, of which these are inputs and labels.

        Raises:
            Interrupted: the person asked to end while they were read; it is the step before that was the last.
        """
        epoch, position = (self.epoch + 1, 0) if self.epoch_done else (self.epoch, self.position + 1)
        self.step += 1
        try:
            inputs, labels = self.batches.get(epoch, position, self.step)
        except Interrupted:
            self.step -= 1
            raise
        self.epoch, self.position = epoch, position
        if not self.leads and self._group is not None:
            seed_rank(self._seed, self._group.rank, self.step)
        self._set_rates(self.step, self.epoch)
        self.evaluated, self._score = False, None
        return inputs, labels

    def average(self) -> None:
        """Average the weights, where that is due after the update of this step."""
        if self._averaging is not None:
            self._averaging.after_step(self.step, self.epoch)
            if self.epoch_done or self.steps_done:
                self._averaging.go_back()

    def clock(self) -> Iterator[Event]:
        """How long a run with a target accuracy has trained."""
        if self._target is not None and self.leads:
            yield self._target.event(self.step)

    def news(self) -> Iterator[Event]:
        """What else there is to tell after a step."""
        yield from self.keeper.news()
        if self._graphs is not None and self._graphs.notices:
            yield self._graphs.notices.pop()

    def rest_of_times(self) -> Iterator[Event]:
        """Where the time of the steps went that was not told yet; in a group all ranks ask."""
        times = self.strategy.times(last=True)
        if self.leads and times is not None:
            yield times

    def evaluate(self) -> Iterator[Event]:
        """Evaluate where there is test data; `evaluated` stays false when the person asks to end meanwhile."""
        self.doing = "evaluating"
        if self.leads:
            yield from self._evaluate()
        if self._group is not None:
            # The others wait here for rank 0, which evaluates alone.
            self.evaluated = self._group.share(self.evaluated)
        self.doing = "training"
        self.losses.restart_clock()

    def _evaluate(self) -> Iterator[Event]:
        if self._evaluator is not None:
            begin = time.perf_counter()
            score = yield from self._evaluator.run()
            if score is None:
                return
            took = time.perf_counter() - begin
            yield Eval(step=self.step, epoch=self.epoch, loss=score.loss, loss_sum=score.loss_sum, accuracy=score.accuracy)
            if not math.isfinite(score.loss) and not self._flaw_told and (flaw := self._evaluator.flaw() or _flaw(score)):
                self._flaw_told = True
                yield Notice(level="warning", text=f"The test loss is {score.loss}, no finite number: {flaw}.")
            if self._target is not None:
                counted = took if self.steps_done else 0.0
                yield from self._target.add_evaluation(self.step, self.epoch, score.accuracy, counted=counted)
            if score.answers is not None:
                with suppress(Interrupted):  # their pictures are read
                    yield score.answers.event(self.step, self.epoch, self._classes)
            self._score = score
        self.evaluated = True

    def go_on_from(self, contents: Contents) -> None:
        """Put a checkpoint back, in the place of what the run began with.

        Raises:
            BadCheckpoint: it belongs to another model or optimizer.
        """
        position = contents.position
        self.strategy.settle(lambda: self.batches.get(position.epoch, 0, position.step))
        restore(contents, self._model, self.optimizer, *self._devices)
        if self._averaging is not None:
            self._averaging.load(contents.averaging)
        if self._target is not None:
            self._target.go_on_from(position)
        self.step, self.epoch, self.position = position.step, position.epoch, position.batches - 1
        self.evaluated = position.evaluated
        self.keeper.went_on_from(position)

    def save(self, kind: CheckpointKind, *, ends: bool = False) -> Iterator[Event]:
        """A checkpoint of this step, at which the run may end. The losses up to it come first, so that nothing is saved after one that is
        not finite."""
        if not self.leads:
            return
        yield from self.losses.rest()
        position = Position(self.step, self.epoch, self.position + 1, self.evaluated)
        if self._target is not None:
            position = self._target.noted(position)
        accuracy, loss = (None, None) if self._score is None else self._score.result
        yield from self.keeper.save(kind, position, accuracy, loss, ends=ends)
        self.losses.restart_clock()

    def is_saved(self) -> bool:
        """Whether the checkpoint of this step is on disk, once all that was saved is; in a group all ranks ask."""
        saved = self.keeper.saved_step == self.step
        return saved if self._group is None else bool(self._group.share(saved))

    def unsaved_end(self) -> Iterator[Event]:
        """What the end of the run lacks, where its last step could not be saved; all that was saved is on disk."""
        saved = self.keeper.saved_step
        if not self.leads or saved == self.step:
            return
        again = f"it goes on from step {saved:,} when it is resumed" if saved else "there is none to go on from"
        yield Notice(level="warning", text=f"The run ends at step {self.step:,} without a checkpoint of that step; {again}.")


def _flaw(score: Score) -> str | None:
    return None if score.answers is None else score.answers.flaw()
