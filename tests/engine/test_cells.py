"""Which cells are the largest and which samples are kept of the matrix's cells: the rules as anyone would write them, their bounds, and
what the event has of them."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
import torch
from torch import Tensor, nn

from tuitrain.engine.cells import LARGEST_CONFUSIONS, LISTED_CONFUSIONS, SHOWN_OF_A_CELL, SHOWN_OF_CELLS, of_cells
from tuitrain.engine.data import Split
from tuitrain.engine.predictions import SHOWN_SAMPLES, Answers
from tuitrain.events import Predictions

Cell = tuple[int, int]


def event_of(scores: Tensor, labels: Tensor, inputs: Tensor | None = None) -> Predictions:
    answers = Answers(Split(torch.zeros(len(labels), 1) if inputs is None else inputs, labels))
    answers.add(scores)
    return answers.event(1, 1, tuple(map(str, range(scores.shape[1]))))


def made_up(classes: int, samples: int, sharpness: float = 1.5) -> tuple[Tensor, Tensor]:
    """Scores of a model that is right more often than not, and takes some classes for the next one."""
    generator = torch.Generator().manual_seed(classes)
    labels = torch.randint(classes, (samples,), generator=generator)
    scores = torch.randn(samples, classes, generator=generator) + sharpness * nn.functional.one_hot(labels, classes)
    return scores + nn.functional.one_hot((labels + 1) % classes, classes) * (labels % 3 == 0)[:, None], labels


def kept(told: Predictions) -> Counter[Cell]:
    return Counter((one.truth, one.predicted) for one in (*told.samples, *told.of_cells))


def counted(told: Predictions) -> dict[Cell, int]:
    return {(truth, said): many for truth, row in enumerate(told.confusion) for said, many in enumerate(row) if many}


def confusions(told: Predictions) -> list[Cell]:
    """The cells beside the diagonal, the largest first; of equal ones the first."""
    beside = {cell: many for cell, many in counted(told).items() if cell[0] != cell[1]}
    return sorted(beside, key=lambda cell: -beside[cell])


def plainly(cells: list[int], classes: int, shown: list[bool]) -> list[int]:
    """The rule with lists."""
    members: dict[int, list[int]] = defaultdict(list)
    for place, cell in enumerate(cells):
        members[cell].append(place)
    by_size = sorted(members, key=lambda cell: (-len(members[cell]), cell))
    largest = [cell for cell in by_size if cell // classes != cell % classes][:LARGEST_CONFUSIONS]
    turns = [place for cell in largest for place in members[cell][:SHOWN_OF_A_CELL]]
    for within in range(SHOWN_OF_A_CELL):
        turns += [members[cell][within] for cell in by_size if cell not in largest and within < len(members[cell])]
    return sorted([place for place in turns if not shown[place]][:SHOWN_OF_CELLS])


@pytest.mark.parametrize(("classes", "samples"), [(1, 9), (2, 40), (3, 500), (10, 3000), (25, 3000), (60, 5000)])
def test_the_rule_equals_a_plain_loop(classes: int, samples: int) -> None:
    generator = torch.Generator().manual_seed(samples)
    # Products make some cells much larger than others.
    draws = torch.rand(samples, 2, generator=generator) * torch.rand(samples, 2, generator=generator) * classes
    truth, said = draws.long().unbind(1)
    order = torch.cat(((truth != said).nonzero()[:, 0], (truth == said).nonzero()[:, 0]))
    cells = (truth * classes + said)[order]
    wrong = int((truth != said).sum())
    shown = torch.zeros(samples, dtype=torch.bool)
    shown[: min(wrong, 48)] = shown[wrong : wrong + 16] = True
    assert of_cells(cells, classes, shown).tolist() == plainly(cells.tolist(), classes, shown.tolist())


@pytest.mark.parametrize("classes", [10, 12])
def test_up_to_twelve_classes_each_cell_has_a_picture_and_the_largest_confusions_a_page(classes: int) -> None:
    told = event_of(*made_up(classes, 9000))
    assert len(counted(told)) == classes**2
    assert set(kept(told)) == set(counted(told))
    assert all(kept(told)[cell] >= min(SHOWN_OF_A_CELL, counted(told)[cell]) for cell in confusions(told)[:LARGEST_CONFUSIONS])
    assert all(many <= counted(told)[cell] for cell, many in kept(told).items())


def test_of_a_hundred_classes_no_more_are_kept_and_the_largest_confusion_is_among_them() -> None:
    told = event_of(*made_up(100, 20_000))
    assert len(counted(told)) > SHOWN_OF_CELLS
    assert (len(told.samples), len(told.of_cells)) == (SHOWN_SAMPLES, SHOWN_OF_CELLS)
    worst = confusions(told)[0]
    assert kept(told)[worst] >= min(SHOWN_OF_A_CELL, counted(told)[worst])


def test_a_sample_is_kept_once_and_in_the_order_of_the_others() -> None:
    told = event_of(*made_up(10, 5000))
    index = [one.index for one in (*told.samples, *told.of_cells)]
    assert len(set(index)) == len(index)
    wrong = [one.truth != one.predicted for one in told.of_cells]
    assert wrong == sorted(wrong, reverse=True)
    mistakes = [one.confidence for one in told.of_cells if one.truth != one.predicted]
    right = [one.confidence for one in told.of_cells if one.truth == one.predicted]
    assert mistakes == sorted(mistakes, reverse=True)
    assert right == sorted(right)


def test_what_a_cell_keeps_are_its_surest_mistakes() -> None:
    scores, labels = made_up(10, 5000)
    told = event_of(scores, labels)
    truth, said = confusions(told)[0]
    places = ((labels == truth) & (scores.argmax(1) == said)).nonzero()[:, 0]
    surest = places[torch.softmax(scores, 1)[places, said].argsort(descending=True)].tolist()
    found = [one.index for one in (*told.samples, *told.of_cells) if (one.truth, one.predicted) == (truth, said)]
    assert found == surest[: len(found)]


def test_samples_of_a_cell_have_their_own_images_and_no_other_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = made_up(10, 2000)
    inputs = torch.randint(256, (2000, 3, 32, 32), generator=torch.Generator().manual_seed(1)).to(torch.uint8)
    copied: list[int] = []
    cpu = Tensor.cpu

    def counting(tensor: Tensor) -> Tensor:
        copied.append(len(tensor))
        return cpu(tensor)

    monkeypatch.setattr(Tensor, "cpu", counting)
    told = event_of(scores, labels, inputs)
    assert copied == [SHOWN_SAMPLES + SHOWN_OF_CELLS]
    for one in told.of_cells[::32]:
        assert one.image == inputs[one.index].permute(1, 2, 0).contiguous().numpy().tobytes()


def test_samples_without_an_answer_have_cells_too() -> None:
    scores, labels = made_up(3, 400)
    scores[labels == 1] = float("nan")
    told = event_of(scores, labels)
    assert told.classes[3] == "no number"
    assert kept(told)[1, 3] >= SHOWN_OF_A_CELL
    assert set(kept(told)) == set(counted(told))


@pytest.mark.parametrize("classes", [101, 400])
def test_without_a_matrix_its_largest_confusions_are_listed_and_each_has_a_picture(classes: int) -> None:
    scores, labels = made_up(classes, 3000, 3.0)
    told = event_of(scores, labels)
    pairs = Counter(zip(labels.tolist(), scores.argmax(1).tolist(), strict=True))
    of_class = Counter(labels.tolist())
    beside = sorted((cell for cell in pairs if cell[0] != cell[1]), key=lambda cell: (-pairs[cell], cell))
    assert len(beside) > LISTED_CONFUSIONS
    listed = beside[:LISTED_CONFUSIONS]
    assert [(one.truth, one.predicted) for one in told.largest] == listed
    assert [(one.count, one.samples) for one in told.largest] == [(pairs[cell], of_class[cell[0]]) for cell in listed]
    assert (told.confusion, len(told.samples)) == ((), SHOWN_SAMPLES)
    assert 0 < len(told.of_cells) <= SHOWN_OF_CELLS
    assert all(kept(told)[cell] >= 1 for cell in listed)
    assert all(kept(told)[cell] >= min(SHOWN_OF_A_CELL, pairs[cell]) for cell in listed[:LARGEST_CONFUSIONS])
    assert {(one.truth, one.predicted) for one in told.of_cells} <= set(listed)


def test_with_a_matrix_nothing_is_listed_and_without_a_mistake_neither() -> None:
    assert event_of(*made_up(100, 3000)).largest == ()
    told = event_of(torch.eye(101), torch.arange(101))
    assert (told.largest, told.of_cells) == ((), ())


def test_the_cells_of_very_many_classes_are_not_counted_one_by_one() -> None:
    """The square of so many has two terabytes."""
    classes = 500_000
    labels, said = torch.tensor([0, classes - 1, 5, 5, 5]), torch.tensor([1, classes - 2, 6, 6, 5])
    answers = Answers(Split(torch.zeros(5, 1), labels))
    answers.add(nn.functional.one_hot(said, classes).float())
    told = answers.event(1, 1, tuple(map(str, range(classes))))
    assert [(one.truth, one.predicted, one.count, one.samples) for one in told.largest] == [
        (5, 6, 2, 3),
        (0, 1, 1, 1),
        (classes - 1, classes - 2, 1, 1),
    ]


def test_a_few_samples_are_all_shown_and_none_is_kept_twice() -> None:
    told = event_of(*made_up(3, 12))
    assert (len(told.samples), told.of_cells) == (12, ())
