"""Streams of images: the pixels are those of a plain reference, to the last bit, whatever loads them and from where."""

import threading
import time
from itertools import product

import numpy as np
import pytest
from messages import message_of

from trainmark.datasets.images.decoding import load_stored
from trainmark.datasets.prepared import read_split
from trainmark.errors import ConfigError, DataError
from trainmark.loading import streams as module
from trainmark.loading.streams import open_streams
from trainmark.loading.workers import ITERATORS
from trainmark.recipes.batch_order import EpochFeed, epoch_feed
from trainmark.recipes.input_transform import network_inputs
from trainmark.recipes.recipe import InputTransform

MEAN = np.random.default_rng(2).uniform(0, 255, (3, 256, 256))
SEED = (7, 1)
AUGMENTED = InputTransform(subtract_mean=True, crop=(224, 216), random_crop=True, random_flip=True)
STORES = ("files", "mapped", "memory")


def settings(iterator="thread", jobs=2, store="files"):
    return {"iterator": iterator, "jobs": jobs, "store": store}


def images_of(dataset, split="train"):
    """The stored images, (samples, channels, height, width)."""
    if dataset.packed:
        return np.stack([load_stored(path).transpose(2, 0, 1) for path in dataset.paths(split)])
    return read_split(dataset.folder, split)[0]


def reference(images, labels, mean, transform, feed):
    """The batches of a feed, in plain numpy and from the words of the docs: nothing is taken from the library."""
    generator = np.random.default_rng(feed.augmentation_seed)
    samples, _, rows, columns = images.shape
    height, width = transform.crop or (rows, columns)
    tops, lefts = np.full(samples, (rows - height) // 2), np.full(samples, (columns - width) // 2)
    if transform.random_crop:
        tops, lefts = (generator.integers(0, last + 1, size=samples) for last in (rows - height, columns - width))
    flips = generator.random(samples) < 0.5 if transform.random_flip else np.zeros(samples, bool)
    order = np.arange(feed.samples) if feed.order is None else feed.order
    for start in range(0, len(order), feed.batch_size):
        batch, inputs = order[start : start + feed.batch_size], []
        for sample in batch:
            top, left = tops[sample], lefts[sample]
            window = np.s_[:, top : top + height, left : left + width]
            values = images[sample][window].astype(np.float64)
            if transform.subtract_mean:
                values = values - mean[window if transform.mean_window == "same" else np.s_[:, :height, :width]]
            values = values * transform.scale
            inputs.append(values[:, :, ::-1] if flips[sample] else values)
        yield np.stack(inputs), labels[batch]


def assert_equals_reference(stream, dataset, mean, transform, feed, dtype="float32"):
    found = [(inputs.copy(), labels) for inputs, labels in stream.training_batches(feed)]
    expected = list(reference(images_of(dataset), stream.labels, mean, transform, feed))
    assert len(found) == len(expected) == feed.steps
    for (inputs, labels), (expected_inputs, expected_labels) in zip(found, expected, strict=True):
        assert inputs.dtype == np.dtype(dtype) and labels.dtype == np.int64
        assert np.array_equal(inputs, expected_inputs.astype(dtype)) and np.array_equal(labels, expected_labels)


@pytest.fixture
def opened():
    """A function like open_streams; what it opens is closed after the test."""
    streams = []

    def open_them(dataset, transform, chosen, mean=MEAN, dtype="float32", packed=True):
        streams.append(
            open_streams(dataset.folder, mean, transform, dtype, chosen, 2, dataset.packed if packed else None)
        )
        return streams[-1]

    yield open_them
    for by_split in streams:
        by_split["train"].close()


@pytest.mark.parametrize(("iterator", "store"), [*product(ITERATORS, STORES)])
def test_batches_equal_a_plain_reference_to_the_last_bit(shared_photographs, opened, iterator, store):
    """All against one reference: serial = thread = process, and files = mapped = memory."""
    stream = opened(shared_photographs, AUGMENTED, settings(iterator, 2, store))["train"]
    assert stream.input_shape == (3, 224, 216) and stream.dtype == "float32"
    for epoch, size in ((1, 8), (2, 21), (3, 5)):
        assert_equals_reference(stream, shared_photographs, MEAN, AUGMENTED, epoch_feed(21, size, SEED, epoch))


@pytest.mark.parametrize(
    ("changes", "dtype"),
    [
        ({}, "float64"), ({"mean_window": "top-left"}, "float32"), ({"mean_window": "top-left"}, "float64"),
        ({"subtract_mean": False}, "float32"), ({"random_crop": False}, "float32"), ({"random_flip": False}, "float64"),
        ({"crop": None}, "float32"), ({"crop": (256, 256), "scale": 0.25}, "float64"), ({"crop": (1, 256)}, "float32"),
    ],
)  # fmt: skip
def test_every_transform_equals_the_reference(shared_photographs, opened, changes, dtype):
    transform = InputTransform(**{**vars(AUGMENTED), **changes})
    mean = MEAN if transform.subtract_mean else None
    stream = opened(shared_photographs, transform, settings(store="mapped"), mean, dtype)["train"]
    assert_equals_reference(stream, shared_photographs, mean, transform, epoch_feed(21, 8, SEED, 1), dtype)


@pytest.mark.parametrize(("iterator", "store"), [*product(ITERATORS, ["files"]), ("process", "memory")])
def test_arrays_are_streamed_as_well(arrays, opened, iterator, store):
    mean = np.random.default_rng(3).uniform(0, 255, (2, 11, 9))
    transform = InputTransform(subtract_mean=True, crop=(10, 7), random_crop=True, random_flip=True)
    stream = opened(arrays, transform, settings(iterator, 2, store), mean)["train"]
    assert np.array_equal(stream.labels, np.arange(50) % 3)
    assert_equals_reference(stream, arrays, mean, transform, epoch_feed(50, 8, SEED, 1))
    assert next(stream.training_batches(epoch_feed(50, 8, SEED, 1)))[0].flags.c_contiguous


@pytest.mark.parametrize("store", ["files", "memory"])
def test_stored_batches_are_the_centre_windows_in_stored_order(shared_photographs, opened, store):
    streams = opened(shared_photographs, AUGMENTED, settings(store=store))
    for split, samples in (("train", 21), ("test", 7)):
        batches = [(inputs.copy(), labels) for inputs, labels in streams[split].stored_batches(4)]
        assert [len(labels) for _, labels in batches] == [4] * (samples // 4) + [samples % 4]
        expected = network_inputs(images_of(shared_photographs, split), MEAN, AUGMENTED, "float32")
        assert np.array_equal(np.concatenate([inputs for inputs, _ in batches]), expected)
        assert np.array_equal(np.concatenate([labels for _, labels in batches]), np.arange(samples) % 3)


@pytest.mark.parametrize("iterator", ITERATORS)
def test_batches_that_are_kept_stay_as_they_are(shared_photographs, opened, iterator):
    """Memory is used again only when nothing refers to its batch."""
    stream = opened(shared_photographs, AUGMENTED, settings(iterator, 2, "mapped"))["train"]
    feed = epoch_feed(21, 2, SEED, 1)
    kept = list(stream.training_batches(feed))
    expected = list(reference(images_of(shared_photographs), stream.labels, MEAN, AUGMENTED, feed))
    for (inputs, _), (expected_inputs, _) in zip(kept, expected, strict=True):
        assert np.array_equal(inputs, expected_inputs.astype(np.float32))
    buffers = len(stream._buffers._arrays)
    del kept, inputs
    views = [inputs[1:, :, ::2] for inputs, _ in stream.training_batches(feed)]
    for view, (expected_inputs, _) in zip(views, expected, strict=True):
        assert np.array_equal(view, expected_inputs[1:, :, ::2].astype(np.float32))
    assert len(stream._buffers._arrays) == buffers


class Counting:
    """A source that counts its reads; each takes a while."""

    def __init__(self, source, seconds):
        self._source, self._seconds, self.reads = source, seconds, []

    def read(self, key):
        self.reads.append(threading.current_thread())
        time.sleep(self._seconds)
        return self._source.read(key)

    def __getattr__(self, name):
        return getattr(self._source, name)


def slow_stream(opened, arrays, iterator, seconds):
    stream = opened(arrays, InputTransform(), settings(iterator, 2), None)["train"]
    stream._loader.source = Counting(stream._loader.source, seconds)
    return stream, stream._loader.source


def test_an_abandoned_epoch_ends_its_work(arrays, opened):
    stream, source = slow_stream(opened, arrays, "thread", 0.01)
    batches = stream.training_batches(epoch_feed(50, 10, SEED, 1))
    next(batches)
    batches.close()
    reads = len(source.reads)
    time.sleep(0.1)
    assert len(source.reads) == reads < 50
    assert len(list(stream.training_batches(epoch_feed(50, 10, SEED, 2)))) == 5, "and the next epoch is whole"


def test_serial_loads_when_a_batch_is_needed_and_waiting_is_the_time_until_it_is_there(arrays, opened):
    """Sleeping is the work, here and there: it takes at least as long as was asked for."""
    stream, source = slow_stream(opened, arrays, "serial", 0.002)
    for step, _ in enumerate(stream.training_batches(epoch_feed(50, 10, SEED, 1)), 1):
        assert len(source.reads) == 10 * step and set(source.reads) == {threading.main_thread()}
    assert stream.waiting_seconds >= 0.1
    waited, begin = stream.waiting_seconds, time.monotonic()
    for _ in stream.stored_batches(25):
        time.sleep(0.2)
    assert waited + 0.1 <= stream.waiting_seconds <= waited + time.monotonic() - begin - 0.4


def test_a_store_that_is_not_there_or_not_right_and_tokens(shared_photographs, opened, monkeypatch, tmp_path):
    for store in ("mapped", "memory"):
        no_store = rf"^loader.store: found {store}, but the dataset small has no packed store; set it to files, or add"
        with pytest.raises(ConfigError, match=no_store):
            opened(shared_photographs, AUGMENTED, settings(store=store), packed=False)
    (tmp_path / "train.npy").write_bytes((shared_photographs.packed / "test.npy").read_bytes())
    with pytest.raises(DataError, match=r"holds 7 images, and the list of .* has 21; delete the store"):
        open_streams(shared_photographs.folder, MEAN, AUGMENTED, "float32", settings(store="mapped"), 2, tmp_path)
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 1 << 20}))
    with pytest.raises(ConfigError, match=r"loader.store: found memory, .* take 3.9 MiB, and 1.0 MiB .* to mapped"):
        opened(shared_photographs, AUGMENTED, settings(store="memory"))
    monkeypatch.setattr(module.prepared, "read_manifest", lambda _: {"kind": "tokens"})
    with pytest.raises(DataError, match="holds tokens; only a dataset of images can be streamed"):
        opened(shared_photographs, AUGMENTED, settings())


@pytest.mark.parametrize("iterator", ITERATORS)
def test_a_photograph_that_is_damaged_in_mid_epoch(shared_photographs, opened, iterator):
    stream = opened(shared_photographs, AUGMENTED, settings(iterator))["train"]
    batches = stream.training_batches(EpochFeed(None, 2, 21, 0, SEED))
    next(batches)
    path = shared_photographs.paths("train")[19]
    content = path.read_bytes()
    path.write_bytes(b"")
    try:
        message = message_of(list, batches)
    finally:
        path.write_bytes(content)
    assert message.startswith(f"{path}: empty file; it could be decoded when it was prepared: ")
    assert len(list(stream.training_batches(EpochFeed(None, 2, 21, 0, SEED)))) == 11, "the workers go on"
