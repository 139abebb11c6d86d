"""Options that all tests share."""

import os
import signal
import tempfile
from pathlib import Path

import pytest

# A suite started with nohup or in the background inherits that these are ignored, and so would what it starts. What it
# starts gets the default, whatever the handler is here: the suite itself outlives a terminal as before.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

# With it, which machines for CI set, every process would compile the modules of a copy of the repository anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Otherwise torch's threads compute while they wait for each other, and keep the CPUs from what they wait for.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

if "PYTEST_XDIST_WORKER" in os.environ and "TRAINMARK_LOCK_FOLDER" not in os.environ:
    LOCKS = tempfile.TemporaryDirectory(prefix="trainmark-locks-")  # nothing is timed: no worker waits for another's
    os.environ["TRAINMARK_LOCK_FOLDER"] = LOCKS.name


def pytest_addoption(parser):
    """Options of the contract suite, which tests/contract/test_contract.py runs for each framework."""
    parser.addoption("--framework", default="chainer", help="framework for tests/contract/contract_suite.py")
    parser.addoption("--loop", default="stock", choices=("stock", "tuned"), help="its loop")
    parser.addoption("--may-lack-layers", action="store_true", help="skip tests with layers that its adapter lacks")
    parser.addoption("--device", default="cpu", choices=("cpu", "gpu"), help="its device; gpu also for tests/gpu")


def pytest_configure(config):
    """All tests run on the CPU, on machines with a GPU too, unless --device gpu is given."""
    if config.getoption("--device") == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


APART = ("test_contract", "test_networks")
"""Files of few and long tests, which share nothing: each goes to the worker that is free."""

LOOK_AT_TINY = ("test_end_to_end", "test_owned_devices", "test_refusals")
"""Files that share a workflow: they go to one worker, so that it runs once."""


def pytest_collection_modifyitems(items):
    """What starts workflows takes long, and comes first."""
    items.sort(key=lambda item: ("tiny" not in item.fixturenames, "tests/unit/" in item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests go to one worker, in the order above, whatever --dist says: most files share something."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = Path(nodeid.partition("::")[0])
            if file.stem in APART or file.parent.name == "cluster":
                return nodeid
            return "tiny" if file.stem in LOOK_AT_TINY else str(file)

    config.option.loadscopereorder = False
    return ByFile(config, log)
