"""Measures how figures are laid out: their size and type, and what overlaps or is cut off."""

from itertools import combinations

import numpy as np
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.text import Text

TRAINERS = {
    2: (["chainer", "keras-jax"],),
    6: (["chainer", "keras-jax", "keras-tensorflow"], ["cpu"], ["stock", "tuned"]),
    12: (["chainer", "keras-jax", "keras-tensorflow"], ["cpu", "gpu"], ["stock", "tuned"]),
}
"""Frameworks, devices and loops of so many trainers."""


def measured_layout(figure):
    """How a figure is laid out.

    width_mm, height_mm: its size. type: sizes of its smallest and largest type in points.
    wrong: a sentence for each text that overlaps something or is cut off.
    """
    figure.set_dpi(100)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    outside = {id(label) for axis in figure.findobj(Axis) for label in _outside(axis)}
    texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
    boxes = [(text, text.get_window_extent(renderer)) for text in texts if id(text) not in outside]
    width, height = figure.get_size_inches() * 25.4
    sizes = [text.get_fontsize() for text, _ in boxes]
    wrong = list(_wrong(figure, boxes))
    return {
        "width_mm": width,
        "height_mm": height,
        "type": (min(sizes), max(sizes)),
        "wrong": wrong,
        "texts": [text.get_text() for text, _ in boxes],
    }


def _outside(axis):
    """The labels of ticks outside the limits of an axis, which are not drawn."""
    low, high = sorted(axis.get_view_interval())
    for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
        if not low <= tick.get_loc() <= high:
            yield from (tick.label1, tick.label2)


def _wrong(figure, boxes):
    canvas, frames = figure.bbox, [axis.get_window_extent() for axis in figure.axes]
    legends = [legend.get_window_extent() for legend in figure.legends]
    for text, box in boxes:
        if not (canvas.x0 <= box.x0 and canvas.y0 <= box.y0 and box.x1 <= canvas.x1 and box.y1 <= canvas.y1):
            yield f"{text.get_text()!r} is cut off: {box} in {canvas}"
        rows = [frame for axis, frame in zip(figure.axes, frames, strict=True) if text not in axis.texts]
        if any(frame.padded(-1).overlaps(box) for frame in rows):
            yield f"{text.get_text()!r} covers data"
    for (one, first), (other, second) in combinations(boxes, 2):
        if first.overlaps(second):
            yield f"{one.get_text()!r} overlaps {other.get_text()!r}"
    for frame in frames:
        if frame.width < 30 or frame.height < 20:  # hundredths of an inch
            yield f"an axis has no room: {frame}"
        if any(frame.overlaps(legend) for legend in legends):
            yield "the legend covers data"


def contrast(*colours):
    """The largest contrast on white of these colours (WCAG 2); 1 without a colour."""
    return max((1.05 / (_luminance(colour) + 0.05) for colour in colours), default=1.0)


def _luminance(colour):
    *rgb, alpha = to_rgba(colour)
    shown = alpha * np.array(rgb) + 1 - alpha
    linear = np.where(shown <= 0.04045, shown / 12.92, ((shown + 0.055) / 1.055) ** 2.4)
    return float(linear @ (0.2126, 0.7152, 0.0722))
