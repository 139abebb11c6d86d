"""A stream of inputs that are in memory, for tests of those who take batches."""

import numpy as np

from trainmark.recipes.stream import Stream


class ArrayStream(Stream):
    """Hands out arrays in batches. It notes the number of samples of each batch that it hands out."""

    def __init__(self, inputs, labels, evaluation_batch_size=1000):
        self.inputs, self.labels = inputs, labels
        self.input_shape, self.dtype = inputs.shape[1:], str(inputs.dtype)
        self.evaluation_batch_size = evaluation_batch_size
        self.sizes = []

    def training_batches(self, feed):
        order = np.arange(feed.samples) if feed.order is None else feed.order
        yield from self._batches(order, feed.batch_size)

    def stored_batches(self, batch_size, samples=None):
        yield from self._batches(np.arange(len(self.labels)) if samples is None else samples, batch_size)

    def _batches(self, order, batch_size):
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            self.sizes.append(len(chosen))
            yield self.inputs[chosen], self.labels[chosen]

    def close(self):
        pass
