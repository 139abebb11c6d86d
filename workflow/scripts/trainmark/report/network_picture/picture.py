"""Makes the picture of a network: rectangles of boxes, lines between them and frames of groups (see layout.py)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from trainmark.report.network_picture.boxes import Box
from trainmark.report.network_picture.layout import FRAME, FRAME_NAME, GAP_Y, GUTTER, MARGIN, Column, Slot, layout

TURN = 2 * FRAME
"""Distance from the bottom of a column to the line that leads to the next column."""


@dataclass(frozen=True)
class Rectangle:
    """A rectangle in pixels. x, y: its upper left corner; y grows downward."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower side."""
        return self.y + self.height

    def overlaps(self, other: "Rectangle") -> bool:
        """Whether the two rectangles share more than a side."""
        across = self.x < other.right and other.x < self.right
        return across and self.y < other.bottom and other.y < self.bottom


@dataclass(frozen=True)
class Line:
    """A line from a box to one that it feeds.

    source, target: the names of the two boxes.
    path: in the syntax of SVG.
    tip: the point where it ends.
    """

    source: str
    target: str
    path: str
    tip: tuple[float, float]


@dataclass(frozen=True)
class Frame:
    """The frame around the boxes of one group."""

    group: str
    place: Rectangle
    auxiliary: bool


@dataclass(frozen=True)
class Picture:
    """A picture of this width and height: boxes with their rectangles, lines and frames."""

    width: float
    height: float
    boxes: tuple[tuple[Box, Rectangle], ...]
    lines: tuple[Line, ...]
    frames: tuple[Frame, ...]


def picture(boxes: Sequence[Box]) -> Picture:
    """Draw a network. boxes: from `boxes.boxes`, in its order."""
    columns = layout(boxes)
    slots = [slot for column in columns for rank in column.ranks for slot in rank]
    places = {slot: _place(slot, columns) for slot in slots}
    return Picture(
        width=round(columns[-1].right + MARGIN, 1),
        height=round(max(column.bottom for column in columns) + TURN + MARGIN, 1),
        boxes=tuple((slot.box, place) for slot, place in places.items() if slot.box),
        lines=tuple(_lines(slots, columns)),
        frames=tuple(_frames(places)),
    )


def _place(slot: Slot, columns: Sequence[Column]) -> Rectangle:
    left = columns[slot.column].middle + slot.x - slot.width / 2
    return Rectangle(*(round(length, 1) for length in (left, slot.y, slot.width, slot.height)))


def _lines(slots: Sequence[Slot], columns: Sequence[Column]) -> Iterator[Line]:
    for target in slots:
        for before in target.before if target.box else ():
            slots_on_way = [target, before]
            while slots_on_way[-1].box is None:
                slots_on_way += slots_on_way[-1].before
            source = slots_on_way.pop()
            assert source.box and target.box
            tip = round(columns[target.column].middle + target.x, 1), round(target.y, 1)
            yield Line(source.box.name, target.box.name, _path(source, slots_on_way[::-1], columns), tip)


def _path(source: Slot, slots_on_way: Sequence[Slot], columns: Sequence[Column]) -> str:
    """The SVG path of a line from a box through slots: curved between ranks, and led around the end of a column."""
    column = columns[source.column]
    x, y = column.middle + source.x, source.y + source.height
    parts = [f"M{x:.1f} {y:.1f}"]
    y = _lower_side(source, column)
    for slot in slots_on_way:
        if columns[slot.column] is not column:
            parts.append(f"V{column.bottom + TURN:.1f}H{column.right + GUTTER / 2:.1f}")
            column = columns[slot.column]
            x, y = column.middle, column.top - GAP_Y
            parts.append(f"V{y:.1f}H{x:.1f}")
        to, half = column.middle + slot.x, (y + slot.y) / 2
        parts.append(f"V{y:.1f}C{x:.1f} {half:.1f} {to:.1f} {half:.1f} {to:.1f} {slot.y:.1f}")
        x, y = to, _lower_side(slot, column)
    return "".join(parts)


def _lower_side(slot: Slot, column: Column) -> float:
    """The y just below all boxes of a slot's rank, where a line may turn."""
    (rank,) = [rank for rank in column.ranks if slot in rank]
    return max(other.y + other.height for other in rank)


def _frames(places: dict[Slot, Rectangle]) -> Iterator[Frame]:
    """A frame for each group, unless the frame would overlap a box of another group."""
    for group in dict.fromkeys(slot.group for slot in places if slot.group):
        inside = [place for slot, place in places.items() if slot.group == group]
        left, top = min(place.x for place in inside), min(place.y for place in inside)
        right, bottom = max(place.right for place in inside), max(place.bottom for place in inside)
        x, y = left - FRAME - FRAME_NAME, top - FRAME
        frame = Rectangle(*(round(length, 1) for length in (x, y, right + FRAME - x, bottom + FRAME - y)))
        if not any(frame.overlaps(place) for slot, place in places.items() if slot.box and slot.group != group):
            yield Frame(group, frame, any(slot.auxiliary for slot in places if slot.group == group))
