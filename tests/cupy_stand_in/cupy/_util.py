"""Decorators and a warning that Chainer needs when it is imported."""

import functools


class PerformanceWarning(RuntimeWarning):
    """Chainer ignores this warning."""


def memoize(for_each_device=False):
    """Return a decorator that stores a function's results; there is one device."""
    return functools.cache


def fuse(*arguments, **options):
    """Return a decorator that leaves a function as it is; Chainer uses it for layers that we don't have."""
    return lambda function: function
