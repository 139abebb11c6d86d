"""Sketches: what is kept of arrays that are compared between processes, and too many to keep.

A sketch of an array is its norm and BUCKETS sums: each value is added to one bucket, with a sign that is drawn by its
place. The norm of the difference of two sketches estimates that of the arrays' difference: its square is right in the
mean, and off by a share of sqrt(2 / BUCKETS), 9 %, as a rule (count sketch: Charikar, Chen, Farach-Colton 2002; sums of
signed values: Alon, Matias, Szegedy 1996). A difference in one value alone is seen exactly.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

BUCKETS = 257
"""A prime, so that buckets, which values are dealt to in turn, fall in with no axis of a network."""

BLOCK_ROWS = 4096
"""Values of a bucket whose signs are drawn at once: bounds the memory that a sketch takes."""

SIGNS_SEED = 20260
"""Of the signs: the same in every process that is compared with another."""


@cache
def _signs(block: int) -> np.ndarray:
    """Signs of a block of values: int8, (BLOCK_ROWS, BUCKETS).

    From raw bits of PCG64, which numpy promises not to change, as it does not for what Generator makes of them.
    """
    bits = np.random.PCG64([SIGNS_SEED, block]).random_raw(BLOCK_ROWS * BUCKETS // 64 + 1).astype("<u8")
    ones = np.unpackbits(bits.view(np.uint8), count=BLOCK_ROWS * BUCKETS)
    return (2 * ones.astype(np.int8) - 1).reshape(BLOCK_ROWS, BUCKETS)


def sketch(array: np.ndarray) -> np.ndarray:
    """The norm of an array and its BUCKETS signed sums: float64, (1 + BUCKETS,). NaN and infinity stay in them."""
    values = np.ascontiguousarray(array, np.float64).ravel()
    sums = np.zeros(BUCKETS)
    with np.errstate(all="ignore"):
        for block, start in enumerate(range(0, len(values), BLOCK_ROWS * BUCKETS)):
            part = values[start : start + BLOCK_ROWS * BUCKETS]
            whole = len(part) // BUCKETS
            rows, rest = part[: whole * BUCKETS].reshape(whole, BUCKETS), part[whole * BUCKETS :]
            sums += (rows * _signs(block)[:whole]).sum(axis=0)
            sums[: len(rest)] += rest * _signs(block)[whole, : len(rest)] if len(rest) else 0
        return np.concatenate([[np.sqrt(values @ values)], sums])


@dataclass(frozen=True)
class Sketches:
    """Sketches of arrays by name. shapes: of the arrays. values: a row each, as `sketch` gives it."""

    shapes: Mapping[str, tuple[int, ...]]
    values: np.ndarray

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "Sketches":
        """Of these arrays."""
        values = [sketch(array) for array in arrays.values()]
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        return cls(shapes, np.stack(values) if values else np.empty((0, 1 + BUCKETS)))

    def arrays(self, beginning: str) -> dict[str, np.ndarray]:
        """As arrays by name, each name with this beginning, for a file: `of_arrays` takes them back."""
        shapes = json.dumps({name: list(shape) for name, shape in self.shapes.items()})
        return {f"{beginning}values": self.values, f"{beginning}shapes": np.frombuffer(shapes.encode(), np.uint8)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], beginning: str) -> "Sketches":
        """Back from `arrays`."""
        shapes = json.loads(arrays[f"{beginning}shapes"].tobytes())
        return cls({name: tuple(shape) for name, shape in shapes.items()}, arrays[f"{beginning}values"])

    def norm(self, names: Iterable[str]) -> float:
        """Of these arrays together. An array that is not there counts as none."""
        return float(np.linalg.norm(self._rows(names)[:, 0]))

    def equal(self, other: "Sketches") -> bool:
        """Whether all names, shapes and sketches are equal to the last bit."""
        return dict(self.shapes) == dict(other.shapes) and self.values.tobytes() == other.values.tobytes()

    def difference(self, other: "Sketches", names: Iterable[str]) -> float:
        """Of these arrays together, relatively (see `relative`); infinite where one is not in both, in one shape."""
        names = list(names)
        if any(name not in self.shapes or self.shapes[name] != other.shapes.get(name) for name in names):
            return float("inf")
        first, second = self._rows(names), other._rows(names)
        if first.tobytes() == second.tobytes():
            return 0.0
        with np.errstate(invalid="ignore"):
            apart = np.float64(np.linalg.norm(first[:, 1:] - second[:, 1:]))
        return relative(apart, np.float64(np.linalg.norm(first[:, 0])), np.float64(np.linalg.norm(second[:, 0])))

    def _rows(self, names: Iterable[str]) -> np.ndarray:
        places = {name: i for i, name in enumerate(self.shapes)}
        return self.values[[places[name] for name in names if name in places]]


def relative(apart: float, first: float, second: float) -> float:
    """A distance by the larger of two sizes; 0 where nothing is apart, else infinite where anything is not finite."""
    if apart == 0:
        return 0.0
    return float(apart / max(abs(first), abs(second))) if np.isfinite([apart, first, second]).all() else float("inf")


def scalar_difference(first: float, second: float) -> float:
    """|a - b| / max(|a|, |b|); 0 where both have the same bits, infinite where one is not finite."""
    if np.float64(first).tobytes() == np.float64(second).tobytes():
        return 0.0
    with np.errstate(invalid="ignore"):
        return relative(abs(np.float64(first) - np.float64(second)), first, second)


def array_difference(
    first: Mapping[str, np.ndarray | None], second: Mapping[str, np.ndarray | None], names: Iterable[str]
) -> float:
    """As `Sketches.difference`, of the arrays themselves."""
    apart, sizes = 0.0, np.zeros(2)
    for name in names:
        a, b = first.get(name), second.get(name)
        if a is None or b is None or a.shape != b.shape:
            return float("inf")
        if a.tobytes() == b.tobytes():  # also where it is not finite
            apart, sizes = apart, sizes + _square(a)
            continue
        with np.errstate(all="ignore"):
            apart += _square(a.astype(np.float64) - b.astype(np.float64))
            sizes += _square(a), _square(b)
    return relative(np.sqrt(apart), *np.sqrt(sizes))


def _square(array: np.ndarray) -> float:
    values = np.asarray(array, np.float64).ravel()
    with np.errstate(all="ignore"):
        return float(values @ values)
