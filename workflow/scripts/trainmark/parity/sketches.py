"""Sketches: short summaries of arrays that are compared between processes and too large to store.

A sketch of an array is its norm and BUCKETS signed sums: each value is added to one bucket, with a sign that depends on
its position. The norm of the difference of two sketches estimates the norm of the difference of the arrays. The square
of the estimate is unbiased, with a relative standard deviation of sqrt(2 / BUCKETS), 9 % (count sketch: Charikar, Chen,
Farach-Colton 2002; sums of signed values: Alon, Matias, Szegedy 1996). A difference in a single value is exact.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

BUCKETS = 257
"""Number of sums. Values go to the buckets in turn; a prime number does not line up with any axis of a network."""

BLOCK_ROWS = 4096
"""Number of values per bucket whose signs are drawn at once; limits the memory that a sketch needs."""

PART_ROWS = 128
"""Number of values per bucket that are added at once; a divisor of BLOCK_ROWS. They stay in the CPU's cache."""

BLOCK_VALUES = 2**13
"""Number of values of arrays that are compared at once: 64 KiB in float64, too few for threads of BLAS."""

SIGNS_SEED = 20260
"""Seed of the signs; the same in every process, so that sketches can be compared."""


@cache
def _signs(block: int) -> np.ndarray:
    """Return the signs of a block of values: int8, (BLOCK_ROWS, BUCKETS).

    They are raw bits of PCG64: numpy guarantees that these never change, but not what a Generator makes of them.
    """
    bits = np.random.PCG64([SIGNS_SEED, block]).random_raw(BLOCK_ROWS * BUCKETS // 64 + 1).astype("<u8")
    ones = np.unpackbits(bits.view(np.uint8), count=BLOCK_ROWS * BUCKETS)
    return (2 * ones.astype(np.int8) - 1).reshape(BLOCK_ROWS, BUCKETS)


def sketch(array: np.ndarray) -> np.ndarray:
    """Return the norm of an array and its BUCKETS signed sums: float64, (1 + BUCKETS,). NaN and infinity propagate."""
    values = np.ravel(array)
    sums, square = np.zeros(BUCKETS), 0.0
    with np.errstate(all="ignore"):
        for start in range(0, len(values), PART_ROWS * BUCKETS):
            part = values[start : start + PART_ROWS * BUCKETS].astype(np.float64, copy=False)
            block, first_row = divmod(start // BUCKETS, BLOCK_ROWS)
            full_rows = len(part) // BUCKETS
            signs = _signs(block)[first_row : first_row + full_rows + 1]
            # einsum makes no array of products, and no threads
            sums += np.einsum("ij,ij->j", part[: full_rows * BUCKETS].reshape(full_rows, BUCKETS), signs[:full_rows])
            square += np.einsum("i,i->", part, part)
            if len(rest := part[full_rows * BUCKETS :]):
                sums[: len(rest)] += rest * signs[full_rows, : len(rest)]
        return np.concatenate([[np.sqrt(square)], sums])


@dataclass(frozen=True)
class Sketches:
    """Sketches of named arrays.

    shapes: shape of each array, by name.
    values: one row per array, as returned by `sketch`.
    """

    shapes: Mapping[str, tuple[int, ...]]
    values: np.ndarray

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> "Sketches":
        """Sketch each of these arrays."""
        values = [sketch(array) for array in arrays.values()]
        shapes = {name: tuple(array.shape) for name, array in arrays.items()}
        return cls(shapes, np.stack(values) if values else np.empty((0, 1 + BUCKETS)))

    def norm(self, names: Iterable[str]) -> float:
        """Return the joint norm of these arrays. Missing arrays are ignored."""
        return float(np.linalg.norm(self._rows(names)[:, 0]))

    def equal(self, other: "Sketches") -> bool:
        """Return whether all names, shapes and sketches are equal to the last bit."""
        return dict(self.shapes) == dict(other.shapes) and self.values.tobytes() == other.values.tobytes()

    def difference(self, other: "Sketches", names: Iterable[str]) -> float:
        """Return the relative difference of these arrays together (see `relative`).

        Infinite if an array is missing on one side or its shapes differ.
        """
        names = list(names)
        if any(name not in self.shapes or self.shapes[name] != other.shapes.get(name) for name in names):
            return float("inf")
        first, second = self._rows(names), other._rows(names)
        if first.tobytes() == second.tobytes():
            return 0.0
        with np.errstate(invalid="ignore"):
            distance = np.float64(np.linalg.norm(first[:, 1:] - second[:, 1:]))
        return relative(distance, np.float64(np.linalg.norm(first[:, 0])), np.float64(np.linalg.norm(second[:, 0])))

    def _rows(self, names: Iterable[str]) -> np.ndarray:
        rows = {name: i for i, name in enumerate(self.shapes)}
        return self.values[[rows[name] for name in names if name in rows]]


def relative(distance: float, first: float, second: float) -> float:
    """Return a distance divided by the larger of two sizes.

    0 if the distance is 0; otherwise infinite if an argument is not finite.
    """
    if distance == 0:
        return 0.0
    finite = np.isfinite([distance, first, second]).all()
    return float(distance / max(abs(first), abs(second))) if finite else float("inf")


def scalar_difference(first: float, second: float) -> float:
    """Return |a - b| / max(|a|, |b|); 0 if both have the same bits, otherwise infinite if one is not finite."""
    if np.float64(first).tobytes() == np.float64(second).tobytes():
        return 0.0
    with np.errstate(invalid="ignore"):
        return relative(abs(np.float64(first) - np.float64(second)), first, second)


def array_difference(
    first: Mapping[str, np.ndarray | None], second: Mapping[str, np.ndarray | None], names: Iterable[str]
) -> float:
    """Return the relative difference like `Sketches.difference`, computed from the arrays themselves."""
    total = Distance()
    for name in names:
        a, b = first.get(name), second.get(name)
        if a is None or b is None or a.shape != b.shape:
            return float("inf")
        for one, other in zip(blocks(a), blocks(b), strict=True):
            total.add(one, other)
    return total.relative()


def blocks(array: np.ndarray) -> list[np.ndarray]:
    """Return the values of an array in parts of BLOCK_VALUES, each of which stays in the CPU's cache."""
    values = np.ravel(array)
    return [values[start : start + BLOCK_VALUES] for start in range(0, len(values), BLOCK_VALUES)]


class Distance:
    """The relative difference of two long vectors, of which one part after the other is added."""

    def __init__(self) -> None:
        self._squared_distance, self._squared_sizes = 0.0, np.zeros(2)

    def add(self, one: np.ndarray, other: np.ndarray) -> None:
        """Add a part of both vectors. Parts with the same bits are equal even if they are not finite."""
        equal = one.tobytes() == other.tobytes()
        a, b = one.astype(np.float64, copy=False), other.astype(np.float64, copy=False)
        with np.errstate(all="ignore"):
            change = a - b
            self._squared_distance += 0.0 if equal else float(change @ change)
            self._squared_sizes += a @ a, b @ b

    def relative(self) -> float:
        """Return the distance divided by the larger size (see `relative`)."""
        return relative(np.sqrt(self._squared_distance), *np.sqrt(self._squared_sizes))
