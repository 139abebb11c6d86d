"""torch's adapter on a GPU, tested with stand-ins for parts of torch, because there is no GPU here."""

from unittest import mock

import numpy as np
import pytest
from streams import ArrayStream

from trainmark.frameworks import torch_platform
from trainmark.frameworks.registry import create_adapter
from trainmark.machine.ranks import Ranks
from trainmark.networks.graph import chain
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.recipe import Optimizer

torch = pytest.importorskip("torch")

ARCHITECTURE = chain("one", (1, 2, 2), [("flatten", "Flatten", {}), ("dense", "Dense", {"units": 2})])
OTHER_DEVICE = torch.device("meta")  # its arrays have no memory: nothing can be computed with them


def on_other_device(loop, inputs, labels):
    """An adapter with these samples, for which OTHER_DEVICE is the GPU, and where batches for evaluation are."""
    adapter = create_adapter("torch", 2, loop)
    weights = draw_initial_weights(ARCHITECTURE, "glorot_uniform", (1, 1))
    adapter.build(
        architecture=ARCHITECTURE, weights=weights, optimizer=Optimizer("sgd", 0.1), device="cpu", dtype="float32"
    )
    adapter._device = OTHER_DEVICE
    if loop == "tuned":
        adapter._steps = {"resident"}
    adapter.load(split="train", inputs=inputs, labels=labels)
    return adapter


@pytest.mark.parametrize("order", [None, np.arange(6)[::-1]])
@pytest.mark.parametrize(("loop", "resident"), [("stock", False), ("tuned", True)])
def test_the_tuned_loop_alone_keeps_the_arrays_on_the_gpu(loop, resident, order):
    """In the stock loop each batch is sent, as in those of other frameworks. Both train on the same device."""
    adapter = on_other_device(loop, np.ones((6, 1, 2, 2), "float32"), np.arange(6) % 2)
    assert {array.device == OTHER_DEVICE for array in adapter._splits["train"]} == {resident}
    batches = list(adapter._batches(EpochFeed(order, 4, 6, 1)))
    assert [[len(array) for array in batch] for batch in batches] == [[4, 4], [2, 2]]
    assert {array.device for batch in batches for array in batch} == {OTHER_DEVICE}
    assert {batch.device for batch in adapter._stored_batches("train")} == {OTHER_DEVICE}


@pytest.mark.parametrize("loop", ["stock", "tuned"])
def test_batches_of_a_stream_are_sent_to_the_gpu(loop):
    inputs, labels = np.ones((6, 1, 2, 2), "float32"), np.arange(6) % 2
    adapter = on_other_device(loop, ArrayStream(inputs, labels), labels)
    batches = [*adapter._batches(EpochFeed(None, 4, 6, 1)), *([batch] for batch in adapter._stored_batches("train"))]
    assert {array.device for batch in batches for array in batch} == {OTHER_DEVICE}


@pytest.mark.parametrize(("device", "backend", "gpu"), [("cpu", "gloo", None), ("gpu", "nccl", "cuda:0")])
def test_a_worker_tells_nccl_its_gpu(device, backend, gpu):
    """The only one that it sees."""
    adapter = create_adapter("torch", 1, ranks=mock.Mock(Ranks, rank=1, size=2, from_first=lambda compute: "host:1"))
    with (
        mock.patch("torch.distributed.init_process_group", side_effect=StopIteration) as connect,
        mock.patch.object(torch_platform, "gpus", lambda torch: [0]),
        pytest.raises(StopIteration),
    ):
        adapter.build(device=device)
    assert connect.call_args.args == (backend,)
    assert connect.call_args.kwargs == {
        "init_method": "tcp://host:1", "rank": 1, "world_size": 2, "device_id": gpu and torch.device(gpu),
    }  # fmt: skip
