"""Stands before `python` on a workflow's PATH: pauses the making of a paper kit before it is put in its place.

It makes the file that the variable PAUSED names when it pauses.
"""

import os
import time
from pathlib import Path

from killing_python import stand_in


def pause(*_):
    """Stand for `kit._replace`."""
    Path(os.environ["PAUSED"]).touch()
    time.sleep(100)


def wrap_kit(_):
    """Have the kit pause where it would be put in its place."""
    from trainmark.paper import kit

    kit._replace = pause


if __name__ == "__main__":
    stand_in(("paper.py",), wrap_kit)
