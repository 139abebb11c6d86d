"""The tuned loop of the framework of twin_adapter.py; for test_loops.py."""

from trainmark.frameworks.chainer_adapter import ChainerAdapter

TUNING = {"twin": {"print": {"text": "a line is printed"}}}


def create(framework, threads, taken):
    """Return the tuned adapter."""
    return TunedAdapter(framework, threads)


class TunedAdapter(ChainerAdapter):
    """See `adapter.Adapter`."""

    loop = "tuned"

    def train_epoch(self, feed):
        """See `adapter.Adapter.train_epoch`."""
        print("the tuned loop trains", flush=True)
        return super().train_epoch(feed)
