"""Prints the scalars of TensorBoard's event files in a folder, each as a line of JSON: wall time, step, tag, value
and file.

It is run by a Python that has tensorboard or TensorFlow, the command's or trainmark's own. The folders below the one
that is read are part of the tag (train/epoch_loss).
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def reader() -> tuple[Callable[[str], Any], Callable[[Any], Any]]:
    """Return two functions: from a file to its events, and from the tensor of a value to its array."""
    try:
        from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
        from tensorboard.util.tensor_util import make_ndarray
    except ImportError:
        import tensorflow

        return tensorflow.compat.v1.train.summary_iterator, tensorflow.make_ndarray
    return lambda file: LegacyEventFileLoader(file).Load(), make_ndarray


events_of, array_of = reader()
folder = Path(sys.argv[1])
for file in sorted(folder.rglob("*tfevents*")):
    for event in events_of(str(file)):
        for value in event.summary.value:
            number = array_of(value.tensor) if value.HasField("tensor") else value.simple_value
            is_scalar = value.HasField("simple_value") or (value.HasField("tensor") and number.dtype == "float32")
            if is_scalar and getattr(number, "size", 1) == 1:
                place = file.relative_to(folder)
                tag = "/".join([*place.parent.parts, value.tag])
                print(json.dumps([event.wall_time, event.step, tag, float(number), str(place)]))
