"""Processes that train in turn, so that a change of the machine's speed changes the times of all of them."""

import multiprocessing
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

from trainmark.errors import MeasurementError

Train = Callable[..., float]
"""A function that trains for one turn and returns the seconds that it took."""


class Trainee:
    """A process that trains when it is told to, and waits otherwise.

    name: what it trains, for messages.
    create: a function of a module, which is called in the new process and returns what trains there.

    The process has the environment variables and the CPUs that this process has when it starts.
    """

    def __init__(self, name: str, create: Callable[..., Train], *arguments: Any) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._name = name
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs, create, arguments))
        self._process.start()
        theirs.close()

    def take_turn(self, *arguments: Any) -> float:
        """Let the process train and return the seconds. Raises MeasurementError if it fails."""
        try:
            self._pipe.send(arguments)
            answer: float | str = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            answer = f"its process ended with the exit status {self._process.exitcode}"
        if isinstance(answer, str):
            raise MeasurementError(f"{self._name}: {answer}")
        return answer

    def close(self) -> None:
        """End the process and wait until it has ended."""
        self._pipe.close()
        self._process.join()


def _serve(pipe: Connection, create: Callable[..., Train], arguments: tuple) -> None:
    """Create what trains, and train for each message. It ends when the other process closes the pipe, or ends.

    An exception is sent as text; its traceback goes to standard error.
    """
    try:
        train = create(*arguments)
        while True:
            pipe.send(train(*pipe.recv()))
    except (EOFError, ConnectionError):
        return
    except Exception as error:  # whatever a framework raises
        traceback.print_exc()
        with suppress(OSError):
            pipe.send(f"{type(error).__name__}: {error}"[:500])


def in_turn(first: Trainee, second: Trainee, rounds: int, *arguments: Any) -> tuple[list[float], list[float]]:
    """Let two processes train in turn; return the seconds of each, by round. Who begins changes from round to round."""
    seconds: dict[Trainee, list[float]] = {first: [], second: []}
    for number in range(rounds):
        for trainee in (first, second) if number % 2 else (second, first):
            seconds[trainee].append(trainee.take_turn(*arguments))
    return seconds[first], seconds[second]
