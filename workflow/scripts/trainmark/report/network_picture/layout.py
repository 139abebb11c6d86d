"""Where the boxes of a network's picture stand.

A layered layout (Sugiyama et al. 1981) in its plainest form: a box's rank is its longest path from the input; within a
rank, boxes stand in the order of the mean place of those that feed them, as near to it as they can; a line over several
ranks has a place of its own in each. Auxiliary heads stand to the right of the network. A long network is folded into
columns, cut where a single box feeds all that comes after.

Lengths are CSS pixels; y grows downward.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from statistics import fmean
from typing import NamedTuple

from trainmark.report.network_picture.boxes import Box

CHARACTER = 6.1
"""Width of a character: at most .61 of the 10 pixels that the fonts named in page.css have."""

LINE_HEIGHT = 13
PADDING = 6
"""From a box's text to its sides."""

GAP_X, GAP_Y = 10, 26
"""From one place to the next in a rank, and from rank to rank."""

LINE_ROOM = 12
"""Width of the place of a line that runs beside boxes."""

FRAME, FRAME_NAME = 5, 15
"""From a group's boxes to its frame, and room for its name to their left."""

GUTTER = 26
"""Between columns, for the line from one to the next."""

MARGIN = 8
COLUMN_HEIGHT, LEAST_COLUMN, PAGE_WIDTH = 1000, 300, 1270
"""A network higher than this is folded, into columns no lower than this, together no wider than this."""


@dataclass(eq=False)
class Slot:
    """A place in a rank: a box's, or, where `box` is None, that of a line on its way to a box.

    before: the slots that its lines come from. x: of its middle, from the middle of the network in its column. y: of
    its upper side.
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
    """Some ranks, one below the other. middle: x of the network's middle; right: of its side; top, bottom: y."""

    ranks: list[list[Slot]]
    middle: float = 0.0
    right: float = 0.0
    top: float = 0.0
    bottom: float = 0.0


def layout(boxes: Sequence[Box]) -> list[Column]:
    """Every box, and every line between ranks, at its place; each box must come after those that feed it."""
    ranks = _ranks(boxes)
    for rank in ranks:
        _spread([slot for slot in rank if not slot.auxiliary], alone=0.0)
        _spread([slot for slot in rank if slot.auxiliary], alone=None)
    return _columns(ranks)


# --- ranks --------------------------------------------------------------------------------------------------------


def _ranks(boxes: Sequence[Box]) -> list[list[Slot]]:
    """The slots of each rank, and of all lines that pass it."""
    width = max(len(line) for box in boxes for line in box.lines) * CHARACTER + 2 * PADDING
    slots: dict[str, Slot] = {}
    passing: list[Slot] = []
    for box in boxes:
        rank = max((slots[source].rank + 1 for source in box.inputs), default=0)
        height = len(box.lines) * LINE_HEIGHT + PADDING
        slot = slots[box.name] = Slot(rank, width, height, box.group, box.auxiliary, box)
        for source in box.inputs:
            way = _way(slots[source], slot)
            passing += way
            slot.before.append(way[-1] if way else slots[source])
    ranks: list[list[Slot]] = [[] for _ in range(1 + max(slot.rank for slot in slots.values()))]
    for slot in (*slots.values(), *passing):
        ranks[slot.rank].append(slot)
    for row in ranks:
        for slot in row:
            slot.height = slot.height or max(other.height for other in row)
    return ranks


def _way(source: Slot, target: Slot) -> list[Slot]:
    """The places of a line in the ranks between two boxes; as high as their ranks, which are not known yet."""
    way: list[Slot] = []
    for rank in range(source.rank + 1, target.rank):
        before = way[-1] if way else source
        way.append(Slot(rank, LINE_ROOM, 0, target.group, target.auxiliary, before=[before]))
    return way


def _spread(slots: list[Slot], alone: float | None) -> None:
    """Set x, from left to right, as near as can be to the mean of where the lines come from. alone: where one stands.

    The sum of the squared distances is the least that there is without overlaps: isotonic regression, by pooling.
    """
    wanted = {
        slot: fmean([before.x for before in slot.before if before.auxiliary == slot.auxiliary] or [0.0])
        for slot in slots
    }
    slots.sort(key=wanted.__getitem__)
    offsets = list(accumulate((_distance(*pair) for pair in pairwise(slots)), initial=0.0))
    pools: list[list[float]] = []
    for slot, offset in zip(slots, offsets, strict=False):
        pools.append([wanted[slot] - offset])
        while len(pools) > 1 and fmean(pools[-2]) > fmean(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    starts = [fmean(pool) for pool in pools for _ in pool]
    for slot, start, offset in zip(slots, starts, offsets, strict=False):
        slot.x = start + offset
    if len(slots) == 1 and alone is not None:
        slots[0].x = alone


def _distance(left: Slot, right: Slot) -> float:
    """Between the middles of neighbours; frames of two groups need room."""
    frames = 2 * FRAME + FRAME_NAME if left.group != right.group else 0
    return (left.width + right.width) / 2 + GAP_X + frames


# --- columns ------------------------------------------------------------------------------------------------------


def _columns(ranks: list[list[Slot]]) -> list[Column]:
    """The ranks in columns."""
    ends = list(accumulate((max(slot.height for slot in rank) + GAP_Y for rank in ranks), initial=0.0))
    cuts = [i for i, (above, below) in enumerate(pairwise(ranks), start=1) if _may_cut(above, below)]

    def size(first: int, last: int) -> tuple[float, float]:
        return ends[last] - ends[first], _Sides.of(ranks[first:last]).width

    columns = [Column(ranks[first:last]) for first, last in pairwise(_folds([*cuts, len(ranks)], size))]
    _place_across(columns)
    _place_down(columns)
    return columns


def _folds(ends: list[int], size: Callable[[int, int], tuple[float, float]]) -> tuple[int, ...]:
    """Where columns begin and end: as low as can be within the page's width, but no lower than COLUMN_HEIGHT.

    ends: where a column may end, the last of all included. size: height and width of a column from one to another.
    For each end, the ways to it of which no other is both lower and narrower (dynamic programming).
    """
    ways: dict[int, list[_Way]] = {0: [_Way(COLUMN_HEIGHT, 2 * MARGIN - GUTTER, 0, (0,))]}
    for last in ends:
        found = []
        for first, before in ways.items():
            high, wide = size(first, last)
            if high >= LEAST_COLUMN:
                found += [way.longer(last, high, wide) for way in before]
        lowest = sorted(way for way in found if way.width <= PAGE_WIDTH)
        ways[last] = [way for i, way in enumerate(lowest) if all(way.width < lower.width for lower in lowest[:i])]
    return ways[ends[-1]][0].edges if ways[ends[-1]] else (0, ends[-1])


class _Way(NamedTuple):
    """Columns side by side, the better the less. height: that of the highest, or COLUMN_HEIGHT where that is more."""

    height: float
    width: float
    highest: float
    edges: tuple[int, ...]

    def longer(self, last: int, high: float, wide: float) -> "_Way":
        """With one more column."""
        height, highest = max(self.height, high), max(self.highest, high)
        return _Way(height, self.width + GUTTER + wide, highest, (*self.edges, last))


def _may_cut(above: Iterable[Slot], below: Iterable[Slot]) -> bool:
    """Whether one box of the network itself feeds all that comes after, and no group lies on both sides."""
    sources = {before for slot in below for before in slot.before}
    groups = [{slot.group for slot in rank} - {None} for rank in (above, below)]
    single = len(sources) == 1 and all(slot.box and not slot.auxiliary for slot in sources)
    return single and not groups[0] & groups[1]


@dataclass(frozen=True)
class _Sides:
    """How far ranks reach: frames and their names; left and right of the network's middle; auxiliary heads."""

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
        """From the left side to the network's middle."""
        return self.frame + self.frame_name - self.network[0]

    @property
    def shift(self) -> float:
        """From the network's middle to that of the heads, which stand beside its widest rank."""
        low = self.heads[0] if self.heads else 0
        return self.network[1] + self.frame + GAP_X + self.frame + self.frame_name - low

    @property
    def width(self) -> float:
        """From side to side."""
        return self.middle + self.frame + (self.shift + self.heads[1] if self.heads else self.network[1])


def _extent(slots: Iterable[Slot]) -> tuple[float, float]:
    sides = [(slot.x - slot.width / 2, slot.x + slot.width / 2) for slot in slots]
    return min(low for low, _ in sides), max(high for _, high in sides)


def _place_across(columns: list[Column]) -> None:
    """Set where columns stand, and auxiliary heads in them."""
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
