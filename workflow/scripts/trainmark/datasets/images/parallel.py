"""Apply a function to many items in threads, in order and in constant memory."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 4
"""Most items queued for each worker: enough to keep it busy, few enough to bound memory."""


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """The results of `function` over `items`, in their order, computed by `workers` threads.

    Exceptions of the function are raised here. Threads are enough for work in libraries that release Python's global
    interpreter lock: decoding, resizing, numpy.
    """
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > workers * AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # also if the caller stops early
            for future in waiting:
                future.cancel()


def chunks(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of `size`; the last list may be shorter."""
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
