"""Options that all tests share."""

import os
import signal

# A suite started with nohup or in the background inherits that these are ignored, and so would what it starts. What it
# starts gets the default, whatever the handler is here: the suite itself outlives a terminal as before.
signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # these tests are the CPU's, on machines with a GPU too


def pytest_addoption(parser):
    """--framework: which adapter the contract suite is run for (tests/contract/test_contract.py runs it for each)."""
    parser.addoption("--framework", default="chainer", help="framework for tests/contract/contract_suite.py")
