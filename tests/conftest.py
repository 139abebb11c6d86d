"""Options that all tests share."""

import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # these tests are the CPU's, on machines with a GPU too


def pytest_addoption(parser):
    """--framework: which adapter the contract suite is run for (tests/contract/test_contract.py runs it for each)."""
    parser.addoption("--framework", default="chainer", help="framework for tests/contract/contract_suite.py")
