"""Several workers train as one does with the same batches: in every engine, for even and uneven shares."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from harness import AS_ROOT, importing

from trainmark.frameworks.registry import known_frameworks

pytestmark = pytest.mark.skipif(not find_spec("mpi4py"), reason="mpi4py is not installed (make workers)")

PROGRAM = Path(__file__).with_name("same_training.py")
MPI = ("mpiexec", "--oversubscribe", "--bind-to", "none", "-n")
ENGINES = [name for name, framework in known_frameworks().items() if framework.engine]


def run_ranks(count, *arguments, before=(), **variables):
    """Run the program as so many ranks of MPI. before: words before the command. variables: of the environment."""
    command = [*before, *MPI, str(count), sys.executable, PROGRAM, *map(str, arguments)]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env=importing(PATH=path, OMP_NUM_THREADS="1", **AS_ROOT, **variables),
    )


# Batches of 16, and a last one of 13: shares differ in all batches with 3, in the last one with 2 and 4.
@pytest.mark.parametrize(
    "workers", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("framework", ENGINES)
def test_several_workers_train_as_one(framework, workers):
    if not known_frameworks()[framework].missing_packages():
        done = run_ranks(workers, framework, workers)
        assert done.returncode == 0, done.stderr
        differences = json.loads(done.stdout.splitlines()[-1])
        assert differences.pop("counted") == 0, "each sample once"
        assert differences.pop("ranks") == 0, "all ranks have the same weights and the same optimizer"
        assert {key: value for key, value in differences.items() if not value < 1e-9} == {}
        assert len(differences) == 9
    else:
        pytest.skip(f"{framework} is not installed")


UNRESOLVED = ("unshare", "--uts", "--map-root-user", "sh", "-c", 'hostname no-such-host; exec "$@"', "sh")
"""Run a command on a host whose name has no address."""

PROXY = "http://192.0.2.1:3128"

FLAX_AROUND = {
    "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
    "JAX_COORDINATOR_ADDRESS": "192.0.2.1:9",
}


@pytest.mark.parametrize(
    ("framework", "around"),
    [
        ("flax", FLAX_AROUND | {"http_proxy": PROXY, "GRPC_ADDRESS_HTTP_PROXY": PROXY}),
        ("flax", {"before": UNRESOLVED, "grpc_proxy": PROXY, "no_proxy": "example.org"}),
        ("torch", {"before": UNRESOLVED}),
        ("torch", {"GLOO_SOCKET_IFNAME": "no-such-if", "MASTER_ADDR": "192.0.2.1", "WORLD_SIZE": "7"}),
    ],
    ids=["proxy and devices", "gRPC's proxy and name", "name", "interface"],
)
def test_workers_of_one_host_find_each_other_whatever_the_environment(framework, around):
    if known_frameworks()[framework].missing_packages():
        pytest.skip(f"{framework} is not installed")
    if "before" in around and subprocess.run([*UNRESOLVED, "true"], check=False).returncode:
        pytest.skip("no namespace may be made here")
    done = run_ranks(2, framework, 2, **around)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["weights"] < 1e-9


@pytest.mark.parametrize(
    ("workers", "masks", "wrong"), [(2, "own masks", []), (12, "own masks", []), (3, "equal masks", ["dropout"])]
)
def test_workers_that_draw_the_same_masks_are_found(workers, masks, wrong):
    done = run_ranks(workers, "chainer", workers, masks)
    found = json.loads(done.stdout.splitlines()[-1])
    assert list(found) == wrong
    assert all("independently for the parts of a batch" in sentence for sentence in found.values())


@pytest.mark.skipif(not find_spec("torch"), reason="torch is not installed")
def test_batch_normalisation_is_over_the_samples_of_each_worker_in_all_engines():
    found = json.loads(run_ranks(2, "chainer", 2, "normalised").stdout.splitlines()[-1])
    assert found["torch"] < 1e-9 < 1e-3 < found["one"]


def test_a_world_of_another_size_is_refused():
    done = run_ranks(2, "chainer", 3)
    assert done.returncode != 0
    assert "the run has 3 workers, and MPI has started 2: start it by mpiexec -n 3" in done.stderr
