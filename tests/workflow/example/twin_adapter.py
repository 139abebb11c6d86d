"""A framework with a stock and a tuned loop, the second in a module of its own; for test_loops.py."""

from trainmark.frameworks.chainer_adapter import ChainerAdapter

FRAMEWORKS = {
    "twin": {"packages": ["chainer"], "environment": {"CHAINER_WARN_CONV": "0"}},
}


def create(framework, threads):
    """Return the adapter."""
    return ChainerAdapter(framework, threads)
