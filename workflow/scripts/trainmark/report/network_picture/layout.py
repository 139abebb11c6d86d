"""Computes the positions of the boxes in a network's picture.

This is a simple layered layout (Sugiyama et al. 1981). The rank of a box is the length of its longest path from the
input. Within a rank, boxes are ordered by the mean position of their inputs and placed as close to it as possible. A
line across several ranks gets a slot in each of them. Auxiliary heads are placed to the right of the network. A long
network is split into columns, at points where a single box feeds everything that follows.

Lengths are CSS pixels; y grows downward.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean
from typing import NamedTuple

from trainmark.report.network_picture.boxes import Box

CHARACTER = 6.1
"""Width of a character: at most 0.61 of the 10-pixel font size in page.css."""

LINE_HEIGHT = 13
PADDING = 6
"""Distance from a box's text to its sides."""

GAP_X, GAP_Y = 10, 26
"""Horizontal distance between slots of a rank, and vertical distance between ranks."""

LINE_ROOM = 12
"""Width of the slot of a line that passes beside boxes."""

FRAME, FRAME_NAME = 5, 15
"""Distance from a group's boxes to its frame, and width of the group's name on the left."""

GUTTER = 26
"""Space between columns, for the line from one to the next."""

MARGIN = 8
COLUMN_HEIGHT, LEAST_COLUMN, PAGE_WIDTH = 1000, 300, 1270
"""A network higher than COLUMN_HEIGHT is split into columns at least LEAST_COLUMN high that fit into PAGE_WIDTH."""


@dataclass(eq=False)
class Slot:
    """A place in a rank: for a box or, if `box` is None, for a line that passes this rank.

    rank: counted from 0 at the input.
    group: the group of its box; for a line, of the box that it leads to.
    auxiliary: whether it belongs to an auxiliary head.
    before: the slots that its lines come from.
    column: the number of its column.
    x: of its middle, measured from the middle of the network in its column.
    y: of its upper side.
    """

    rank: int
    width: float
    height: float
    group: str | None
    auxiliary: bool
    box: Box | None = None
    before: "list[Slot]" = field(default_factory=list)
    column: int = 0
    x: float = 0.0
    y: float = 0.0


@dataclass
class Column:
    """Consecutive ranks, drawn one below the other.

    middle: x of the network's middle.
    right: x of the right side.
    top, bottom: y of the upper and lower side.
    """

    ranks: list[list[Slot]]
    middle: float = 0.0
    right: float = 0.0
    top: float = 0.0
    bottom: float = 0.0


def layout(boxes: Sequence[Box]) -> list[Column]:
    """Compute the position of every box and of every line between ranks. Each box must come after its inputs."""
    ranks = _ranks(boxes)
    for rank in ranks:
        _spread([slot for slot in rank if not slot.auxiliary], alone=0.0)
        _spread([slot for slot in rank if slot.auxiliary], alone=None)
    return _columns(ranks)


# --- ranks --------------------------------------------------------------------------------------------------------


def _ranks(boxes: Sequence[Box]) -> list[list[Slot]]:
    """The slots of each rank: for its boxes and for the lines that pass it."""
    width = max(len(line) for box in boxes for line in box.lines) * CHARACTER + 2 * PADDING
    slots: dict[str, Slot] = {}
    passing: list[Slot] = []
    for box in boxes:
        rank = max((slots[source].rank + 1 for source in box.inputs), default=0)
        height = len(box.lines) * LINE_HEIGHT + PADDING
        slot = slots[box.name] = Slot(rank, width, height, box.group, box.auxiliary, box)
        for source in box.inputs:
            line_slots = _line_slots(slots[source], slot)
            passing += line_slots
            slot.before.append(line_slots[-1] if line_slots else slots[source])
    ranks: list[list[Slot]] = [[] for _ in range(1 + max(slot.rank for slot in slots.values()))]
    for slot in (*slots.values(), *passing):
        ranks[slot.rank].append(slot)
    for row in ranks:
        for slot in row:
            slot.height = slot.height or max(other.height for other in row)
    return ranks


def _line_slots(source: Slot, target: Slot) -> list[Slot]:
    """The slots of a line in the ranks between two boxes. Their height is set later, to that of their ranks."""
    slots: list[Slot] = []
    for rank in range(source.rank + 1, target.rank):
        before = slots[-1] if slots else source
        slots.append(Slot(rank, LINE_ROOM, 0, target.group, target.auxiliary, before=[before]))
    return slots


def _spread(slots: list[Slot], alone: float | None) -> None:
    """Assign x positions to the slots of a rank, from left to right.

    Each slot is placed as close as possible to the mean position of its inputs. The positions minimise the sum of the
    squared distances, subject to no overlap (isotonic regression by the pool-adjacent-violators algorithm).

    alone: x of a slot that has its rank to itself; None to place it like the others.
    """
    desired = {
        slot: fmean([before.x for before in slot.before if before.auxiliary == slot.auxiliary] or [0.0])
        for slot in slots
    }
    slots.sort(key=desired.__getitem__)
    offsets = list(accumulate((_distance(*pair) for pair in pairwise(slots)), initial=0.0))
    pools: list[list[float]] = []
    for slot, offset in zip(slots, offsets, strict=False):
        pools.append([desired[slot] - offset])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    starts = [fmean(pool) for pool in pools for _ in pool]
    for slot, start, offset in zip(slots, starts, offsets, strict=False):
        slot.x = start + offset
    if len(slots) == 1 and alone is not None:
        slots[0].x = alone


def _distance(left: Slot, right: Slot) -> float:
    """Distance between the middles of two neighbours, including the frames between different groups."""
    frames = 2 * FRAME + FRAME_NAME if left.group != right.group else 0
    return (left.width + right.width) / 2 + GAP_X + frames


# --- columns ------------------------------------------------------------------------------------------------------


def _columns(ranks: list[list[Slot]]) -> list[Column]:
    """Split the ranks into columns, and set all positions."""
    ends = list(accumulate((max(slot.height for slot in rank) + GAP_Y for rank in ranks), initial=0.0))
    cuts = [i for i, (above, below) in enumerate(pairwise(ranks), start=1) if _may_cut(above, below)]

    def size(first: int, last: int) -> tuple[float, float]:
        return ends[last] - ends[first], _Sides.of(ranks[first:last]).width

    columns = [Column(ranks[first:last]) for first, last in pairwise(_folds([*cuts, len(ranks)], size))]
    _place_across(columns)
    _place_down(columns)
    return columns


def _folds(ends: list[int], size: Callable[[int, int], tuple[float, float]]) -> tuple[int, ...]:
    """Choose the ranks at which columns begin and end.

    The columns are as low as possible within PAGE_WIDTH, but need not be lower than COLUMN_HEIGHT. Dynamic programming:
    for each possible end, it keeps the splits for which no other split is both lower and narrower.

    ends: the ranks before which a column may end, including the end of the network.
    size: height and width of a column, from its first rank to the rank before which it ends.
    """
    splits: dict[int, list[_Split]] = {0: [_Split(COLUMN_HEIGHT, 2 * MARGIN - GUTTER, 0, (0,))]}
    for last in ends:
        candidates = []
        for first, shorter in splits.items():
            column_height, column_width = size(first, last)
            if column_height >= LEAST_COLUMN:
                candidates += [split.extended(last, column_height, column_width) for split in shorter]
        lowest = sorted(split for split in candidates if split.width <= PAGE_WIDTH)
        splits[last] = [
            split for i, split in enumerate(lowest) if all(split.width < lower.width for lower in lowest[:i])
        ]
    return splits[ends[-1]][0].edges if splits[ends[-1]] else (0, ends[-1])


class _Split(NamedTuple):
    """A split of ranks into columns. Splits compare as tuples: the smaller one is better.

    height: the height of the highest column, but at least COLUMN_HEIGHT.
    width: of all columns together, with margins and gutters.
    highest: the height of the highest column.
    edges: the ranks at which columns begin and end.
    """

    height: float
    width: float
    highest: float
    edges: tuple[int, ...]

    def extended(self, last: int, column_height: float, column_width: float) -> "_Split":
        """The split with one more column."""
        height, highest = max(self.height, column_height), max(self.highest, column_height)
        return _Split(height, self.width + GUTTER + column_width, highest, (*self.edges, last))


def _may_cut(above: Iterable[Slot], below: Iterable[Slot]) -> bool:
    """Whether a column may end between two ranks.

    It may if a single box outside auxiliary heads feeds everything below, and no group has boxes on both sides.
    """
    sources = {before for slot in below for before in slot.before}
    groups = [{slot.group for slot in rank} - {None} for rank in (above, below)]
    single = len(sources) == 1 and all(slot.box and not slot.auxiliary for slot in sources)
    return single and not groups[0] & groups[1]


@dataclass(frozen=True)
class _Sides:
    """The horizontal extent of some ranks.

    frame, frame_name: distance of the frames, and width of their names; 0 without groups.
    network: left and right side of the network, from its middle.
    heads: left and right side of the auxiliary heads, from their middle; None without heads.
    """

    frame: float
    frame_name: float
    network: tuple[float, float]
    heads: tuple[float, float] | None

    @classmethod
    def of(cls, ranks: Iterable[Iterable[Slot]]) -> "_Sides":
        slots = [slot for rank in ranks for slot in rank]
        frame = FRAME if any(slot.group for slot in slots) else 0
        heads = [slot for slot in slots if slot.auxiliary]
        network = _extent([slot for slot in slots if not slot.auxiliary])
        return cls(frame, FRAME_NAME if frame else 0, network, _extent(heads) if heads else None)

    @property
    def middle(self) -> float:
        """Distance from the left side to the network's middle."""
        return self.frame + self.frame_name - self.network[0]

    @property
    def shift(self) -> float:
        """Distance from the network's middle to that of the heads, which are drawn beside its widest rank."""
        low = self.heads[0] if self.heads else 0
        return self.network[1] + self.frame + GAP_X + self.frame + self.frame_name - low

    @property
    def width(self) -> float:
        """Width from side to side."""
        return self.middle + self.frame + (self.shift + self.heads[1] if self.heads else self.network[1])


def _extent(slots: Iterable[Slot]) -> tuple[float, float]:
    sides = [(slot.x - slot.width / 2, slot.x + slot.width / 2) for slot in slots]
    return min(low for low, _ in sides), max(high for _, high in sides)


def _place_across(columns: list[Column]) -> None:
    """Set the horizontal positions of the columns, and of auxiliary heads in them."""
    left: float = MARGIN
    for i, column in enumerate(columns):
        sides = _Sides.of(column.ranks)
        column.middle, column.right = left + sides.middle, left + sides.width
        for slot in (slot for rank in column.ranks for slot in rank):
            slot.column = i
            slot.x += sides.shift if slot.auxiliary else 0
        left = column.right + GUTTER


def _place_down(columns: list[Column]) -> None:
    for column in columns:
        column.top = column.bottom = MARGIN + FRAME + (GAP_Y if len(columns) > 1 else 0)
        for rank in column.ranks:
            height = max(slot.height for slot in rank)
            for slot in rank:
                slot.y = column.bottom
            column.bottom += height + GAP_Y
        column.bottom -= GAP_Y
