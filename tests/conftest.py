"""Options that all tests share."""

import os
import signal

# A suite started with nohup or in the background inherits that these are ignored, and so would what it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # these tests are the CPU's, on machines with a GPU too


def pytest_addoption(parser):
    """--framework: which adapter the contract suite is run for (tests/contract/test_contract.py runs it for each)."""
    parser.addoption("--framework", default="chainer", help="framework for tests/contract/contract_suite.py")
