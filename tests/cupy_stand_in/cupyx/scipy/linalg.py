"""Chainer imports it; our layers need none of it."""
