"""Options that all tests share."""

import os
import signal
import tempfile

import pytest

# A suite started with nohup or in the background inherits that these are ignored, and so would what it starts. What it
# starts gets the default, whatever the handler is here: the suite itself outlives a terminal as before.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # these tests are the CPU's, on machines with a GPU too

if "PYTEST_XDIST_WORKER" in os.environ:  # nothing is timed here: one worker's runs don't wait for another's
    name = f"trainmark-locks-of-{os.environ['PYTEST_XDIST_WORKER']}"
    os.environ.setdefault("TRAINMARK_LOCK_FOLDER", os.path.join(tempfile.gettempdir(), name))


def pytest_addoption(parser):
    """--framework: which adapter the contract suite is run for (tests/contract/test_contract.py runs it for each)."""
    parser.addoption("--framework", default="chainer", help="framework for tests/contract/contract_suite.py")


APART = ("test_contract", "test_networks")
"""Files of few and long tests, which share nothing: each goes to the worker that is free."""


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items):
    """Under xdist a file's tests go to one worker, as do those that look at the tiny workflow; long ones come first."""
    for item in items:
        if item.path.stem not in APART:
            item.add_marker(pytest.mark.xdist_group("tiny" if "tiny" in item.fixturenames else item.path.stem))
    items.sort(key=lambda item: ("tiny" not in item.fixturenames, "tests/unit/" in item.nodeid))
