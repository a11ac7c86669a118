"""What an exported script has to know of a run beside its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from tuitrain.engine.own.arguments import NOT_CALLED, Arguments
from tuitrain.events import DataKind, Targets


@dataclass(frozen=True)
class Facts:
    """What the run's first event and its environment say, or what is most likely where there has been no run yet.

    Attributes:
        kind: what the data is.
        has_test: whether there is test data; `None`: only the data will say.
        targets: what its labels are for the model.
        whole: the inputs are whole numbers, such as those of tokens; `None` where nobody has looked.
        several: what the network calls its inputs, in their order and "" for each where it does not; `None` where there is only one.
        given: what the person's own functions are called with, by their fields.
        parts: what a person's data calls its parts, and a file its arrays, inputs and labels of each; "" where it is one data set alone,
            empty where it is a pair.
        of_loaders: which of the two, "train" and "test", a person's code gives as loaders.
        side: to how many pixels, in height and in width, images of a person's `Dataset` are brought; `None` where they are as it has them.
        large: the images are large, see `models.are_large`.
        scores: how many the network gives, where the training samples are read anew in each epoch; else `None`.
        classes_last: the network gives the scores of positions as [N, ..., C].
        contiguous: no other memory suits it; `None` where nobody has tried.
        threads: that compute on the CPU, where that is known.
        trained_before: with what else the run had trained until it went on as it ended, empty without.
    """

    kind: DataKind
    has_test: bool | None
    targets: Targets
    whole: bool | None
    several: tuple[str, ...] | None
    given: Arguments
    parts: tuple[str, ...]
    of_loaders: tuple[str, ...]
    side: int | None
    large: bool
    scores: int | None
    classes_last: bool
    contiguous: bool | None
    threads: int | None
    trained_before: str

    @property
    def network_stands(self) -> bool:
        """Whether the network stands in a module, and is made when that is imported: not before the seed is set."""
        return NOT_CALLED in self.given.get("model", ())
