"""The threads of a run: by its device, and by what fits beside the runs on the CPU."""

import pytest

from trainmark.session.resources import threads_that_fit


@pytest.mark.parametrize(
    ("cores", "workers", "beside_cpu", "on_cpu", "on_gpu"),
    [
        (1, 1, True, 1, 1),
        (2, 1, True, 2, 2),
        (4, 1, True, 2, 2),
        (5, 1, True, 2, 3),
        (6, 1, True, 2, 4),
        (64, 1, True, 2, 4),
        (4, 1, False, 2, 4),
        (3, 2, True, 1, 1),
        (4, 2, True, 2, 2),
        (8, 2, True, 2, 3),
        (16, 2, True, 2, 4),
        (8, 2, False, 2, 4),
        (2, 4, True, 1, 1),
    ],
)
def test_a_gpu_run_has_more_threads_if_a_run_on_the_cpu_fits_beside_it(cores, workers, beside_cpu, on_cpu, on_gpu):
    assert [threads_that_fit(device, cores, workers, beside_cpu) for device in ("cpu", "gpu")] == [on_cpu, on_gpu]
