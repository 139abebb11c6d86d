"""Milliseconds of the gradient of a dense layer's kernel in JAX on the CPU, as XLA computes it and as its transpose.

Run: make bench-narrow. The tuned loop takes the transpose for layers with at least `NARROW` times as many inputs as
units (frameworks/jax_kernels.py).
"""

import os
import statistics

from trainmark.frameworks.registry import set_environment
from trainmark.machine.gpus import limit_threads

BATCH, SIZES, REPEATS = 128, (512, 1000, 4096), 100


def main() -> None:
    """Measure and print the table: time of the gradient itself, and ratio of its transpose to it."""
    limit_threads(sorted(os.sched_getaffinity(0)))
    set_environment("keras-jax", "tuned")
    import jax
    import numpy as np

    from trainmark.training.peak import fastest_seconds

    def milliseconds(gradient, inputs: np.ndarray, outputs: np.ndarray) -> float:
        def repeated(inputs, outputs):
            def body(_, value):  # each gradient depends on a value of the one before, so that none is left out
                return jax.lax.optimization_barrier(gradient(inputs.at[0, 0].set(value), outputs))[0, 0]

            return jax.lax.fori_loop(0, REPEATS, body, 0.5)

        compiled = jax.jit(repeated)
        work = lambda: compiled(inputs, outputs).block_until_ready()  # noqa: E731
        return 1000 * statistics.median(fastest_seconds(work) for _ in range(3)) / REPEATS

    transposed = lambda inputs, outputs: jax.lax.optimization_barrier(outputs.T @ inputs).T  # noqa: E731
    print(f"{len(os.sched_getaffinity(0))} CPUs, batches of {BATCH}\n| inputs | units | gradient, ms | its transpose |")
    print("|---|---|---|---|")
    generator = np.random.default_rng(0)
    for size in SIZES:
        for units in (2, 10, size // 32, size // 8, size):
            operands = [generator.random((BATCH, columns), np.float32) for columns in (size, units)]
            plain = milliseconds(lambda inputs, outputs: inputs.T @ outputs, *operands)
            print(f"| {size} | {units} | {plain:.3f} | {milliseconds(transposed, *operands) / plain:.2f} |", flush=True)


if __name__ == "__main__":
    main()
