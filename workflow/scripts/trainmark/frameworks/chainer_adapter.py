"""The adapter of Chainer: numpy on the CPU, CuPy on the GPU. The loop is that of its documentation: an updater."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from trainmark.errors import DeviceError
from trainmark.frameworks.adapter import (
    ObservedAdapter,
    check_array,
    check_shape,
    evaluation_batches,
    numpy_operation,
    random_matrix,
)
from trainmark.frameworks.chainer_layers import (
    Network,
    array_of,
    chainer,
    variable_of,
)
from trainmark.frameworks.chainer_optimizers import OPTIMIZERS, STATES, set_rates
from trainmark.frameworks.layouts import outputs_first, outputs_last, shape_with_outputs_last
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.stream import Batch, Stream
from trainmark.recipes.update_rules import SLOTS

FRAMEWORKS = {
    "chainer": {
        "packages": ["chainer"],
        "environment": {"CHAINER_WARN_CONV": "0", "NVIDIA_TF32_OVERRIDE": "0"},
        "unused_packages": ["h5py", "scipy"],
        "also_called": ["chainermn", "cupy"],
        "variables": ["CHAINER"],
    }
}

OUT_OF_MEMORY = {
    "OutOfMemoryError": ("",),
    "CUDARuntimeError": ("cudaErrorMemoryAllocation",),
    "CUDADriverError": ("CUDA_ERROR_OUT_OF_MEMORY",),
    "CUBLASError": ("CUBLAS_STATUS_ALLOC_FAILED",),
    "CuDNNError": ("CUDNN_STATUS_ALLOC_FAILED",),
    "CURANDError": ("CURAND_STATUS_ALLOCATION_FAILED",),
}
"""CuPy's out-of-memory exceptions: for each class name, texts of which the message must contain one."""

FLOAT32_OPS: dict[str, tuple[str, ...]] = {"cpu": (), "gpu": ("LRN",)}
"""`Adapter.float32_ops` by device. Chainer's kernel `lrn_conv_sum` adds the squares in a variable of the type float."""

to_cpu = chainer.backends.cuda.to_cpu


def create(framework: str, threads: int) -> "ChainerAdapter":
    """Return the adapter of a framework of FRAMEWORKS."""
    return ChainerAdapter(framework, threads)


class ChainerAdapter(ObservedAdapter):
    """See `adapter.Adapter`."""

    out_of_memory_texts = OUT_OF_MEMORY

    network_class: type[Network] = Network

    def build(
        self,
        *,
        architecture: Architecture,
        weights: Weights,
        optimizer: Optimizer,
        device: str,
        dtype: str,
        observed_batch: int | None = None,
    ) -> None:
        if device == "gpu" and not (chainer.backends.cuda.available and _gpu_count()):
            raise DeviceError(f"chainer sees no GPU: CuPy is {_cupy_problem()}; install CuPy for this machine's CUDA")
        chainer.config.dtype = np.dtype(dtype)
        self.float32_ops = FLOAT32_OPS[device]
        self._architecture = architecture
        self._splits: dict[str, tuple[Any, np.ndarray]] = {}
        self._counted = {"samples": 0, "batches": 0}
        self._network = self.network_class(architecture)
        for parameter in architecture.arrays():
            array = array_of(self._network, parameter)
            shape = None if array is None else shape_with_outputs_last(parameter, array.shape)
            check_array(self.framework, parameter, shape)
        self._device = chainer.get_device("@cupy:0" if device == "gpu" else "@numpy")
        self._device.use()
        self._network.to_device(self._device)
        self.set_weights(weights)
        constants, self._rule = optimizer.as_dict(), optimizer.rule
        self._optimizer = self._shared(OPTIMIZERS[constants.pop("rule")](**constants)).setup(self._network)
        for parameter in self._network.params():
            parameter.update_rule._init_states(parameter)  # by default at the first update; `state` would lack it
        self._gradients: Weights = {}
        if observed_batch:
            self._network.masks = {}
            self._optimizer.add_hook(self._store_gradients, name="observed", timing="pre")

    def _shared(self, optimizer: chainer.Optimizer) -> chainer.Optimizer:
        """Return the optimizer that several workers share."""
        return optimizer

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays stay on the host; the stock updater moves each batch."""
        self._splits[split] = (inputs, labels.astype(np.int32))

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        set_rates(self._optimizer, feed.rates)
        self._seed_dropout(feed.dropout_seed)
        losses, samples = [], 0

        def compute_loss(inputs: np.ndarray, labels: np.ndarray) -> chainer.Variable:
            nonlocal samples
            samples += len(inputs)
            loss = self._loss(inputs, labels)
            losses.append(loss.array)
            return loss

        iterator, converter = self._iterator(feed)
        updater = chainer.training.updaters.StandardUpdater(
            iterator, self._optimizer, converter, device=self._device, loss_func=compute_loss
        )
        for _ in range(feed.steps):
            updater.update()
        self._counted = {"samples": samples, "batches": updater.iteration}
        return self._read(losses)

    def _seed_dropout(self, seed: int) -> None:
        """Seed the generator of the masks, if there are any: on a GPU this takes milliseconds of the epoch."""
        if self._architecture.has_dropout:
            self._device.xp.random.seed(seed)

    def _read(self, losses: list) -> np.ndarray:
        """Return the losses of the steps, (steps,), which are read from the device at once and not one by one."""
        return to_cpu(self._device.xp.stack(losses)).astype(np.float64)

    def _loss(self, inputs: Any, labels: Any) -> chainer.Variable:
        """Return the loss of a step: softmax cross entropy, plus the weighted ones of auxiliary heads."""
        heads = [chainer.functions.softmax_cross_entropy(logits, labels) for logits in self._network(inputs)]
        loss = heads[0]
        for (_, weight), auxiliary in zip(self._architecture.auxiliary, heads[1:], strict=True):
            loss = loss + weight * auxiliary
        return loss

    def _iterator(self, feed: EpochFeed) -> tuple[chainer.dataset.Iterator, Any]:
        """Return (the iterator of a feed, the converter of its batches), for an updater."""
        inputs, labels = self._splits["train"]
        if isinstance(inputs, Stream):
            return StreamIterator(inputs.training_batches(feed)), send_batch
        # With neither an order_sampler nor shuffle=False, the iterator shuffles.
        order: dict[str, Any] = {"order_sampler": lambda order, position: feed.order}
        if feed.order is None:
            order = {"shuffle": False}
        dataset = chainer.datasets.TupleDataset(inputs, labels)
        iterator = chainer.iterators.SerialIterator(dataset, feed.batch_size, repeat=False, **order)
        return iterator, chainer.dataset.concat_examples

    def predict(self, split: str) -> np.ndarray:
        logits = []
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for inputs in evaluation_batches(self._splits[split][0], self._architecture):
                batch = self._device.send(np.ascontiguousarray(inputs))
                logits.append(to_cpu(self._network(batch)[0].array))
        return np.concatenate(logits)

    def weights(self) -> Weights:
        return {
            parameter.name: outputs_last(parameter, to_cpu(array_of(self._network, parameter)))
            for parameter in self._architecture.arrays()
        }

    def set_weights(self, weights: Weights) -> None:
        for parameter in self._architecture.arrays():
            array = array_of(self._network, parameter)
            array[...] = self._device.send(outputs_first(parameter, weights[parameter.name]).astype(array.dtype))

    def counted(self) -> dict[str, int]:
        return {**self._counted, "updates": self._optimizer.t}

    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        inputs = self._splits[split][0][np.asarray(indices)]
        shapes = self._architecture.shapes()
        outputs = {"input": inputs}
        state = self.state()
        with chainer.using_config("train", training), chainer.no_backprop_mode():
            for name, value in self._network.activations(self._device.send(inputs)):
                check_shape(self.framework, name, value.shape[1:], shapes[name])
                outputs[name] = np.array(to_cpu(value.array))
        self.set_state(state)
        return outputs

    def gradients(self) -> Weights:
        return self._gradients

    def slots(self) -> Weights:
        return {name: outputs_last(parameter, to_cpu(array)) for name, parameter, array in self._slots()}

    def set_slots(self, slots: Weights, updates: int) -> None:
        for name, parameter, array in self._slots():
            array[...] = self._device.send(outputs_first(parameter, slots[name]).astype(array.dtype))
        self._optimizer.t = updates
        for one in self._network.params():
            one.update_rule.t = updates

    def _slots(self) -> Iterator[tuple[str, Parameter, Any]]:
        """Yield (name, parameter, the optimizer's array itself)."""
        names = list(zip(SLOTS[self._rule], STATES[self._rule], strict=True))
        for parameter in self._architecture.parameters():
            state = variable_of(self._network, parameter).update_rule.state
            yield from ((f"{parameter.name}.{slot}", parameter, state[own]) for slot, own in names)

    def set_masks(self, masks: Weights) -> None:
        dtype = chainer.config.dtype
        self._network.masks = {name: self._device.send(mask.astype(dtype)) for name, mask in masks.items()}

    def state(self) -> dict[str, np.ndarray]:
        serializer = chainer.serializers.DictionarySerializer()
        serializer["network"].save(self._network)
        serializer["optimizer"].save(self._optimizer)
        return {name: np.array(value) for name, value in serializer.target.items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        deserializer = chainer.serializers.NpzDeserializer(state)
        deserializer["network"].load(self._network)
        deserializer["optimizer"].load(self._optimizer)

    def synchronize(self) -> None:
        """See `adapter.Adapter.synchronize`. numpy calls return when they are done."""
        if self._device.xp is not np:
            chainer.backends.cuda.Stream.null.synchronize()

    def describe_device(self) -> dict[str, str]:
        if isinstance(next(iter(self._network.params())).array, np.ndarray):
            return {"kind": "cpu", "name": "numpy"}
        properties = chainer.backends.cuda.cupy.cuda.runtime.getDeviceProperties(0)
        return {"kind": "gpu", "name": properties["name"].decode()}

    def device_memory_mib(self) -> float | None:
        """See `adapter.Adapter.device_memory_mib`. CuPy's pool frees nothing, so its size is the peak."""
        if self._device.xp is np:
            return None
        return chainer.backends.cuda.memory_pool.total_bytes() / 2**20

    def matrix_operation(self, operation: str, side: int, times: int) -> Callable[[], object]:
        matrices = [self._device.send(random_matrix(side, seed)) for seed in (1, 2)]
        compute = numpy_operation(self._device.xp, operation, matrices, times)

        def work() -> None:
            compute()
            self.synchronize()

        return work

    def versions(self) -> dict[str, str]:
        versions = {"chainer": chainer.__version__, "numpy": np.__version__}
        if chainer.backends.cuda.available:
            versions["cupy"] = chainer.backends.cuda.cupy.__version__
        return versions

    def _store_gradients(self, optimizer: chainer.Optimizer) -> None:
        """Store the gradients; a hook that the optimizer calls before each update."""
        self._gradients = {
            parameter.name: outputs_last(parameter, to_cpu(variable_of(self._network, parameter).grad))
            for parameter in self._architecture.parameters()
        }


class StreamIterator(chainer.dataset.Iterator):
    """The batches of a stream as an iterator of Chainer's."""

    is_new_epoch = False

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches

    def next(self) -> Batch:
        """Return the next batch."""
        return next(self._batches)


@chainer.dataset.converter()
def send_batch(batch: Batch, device: Any) -> tuple[Any, Any]:
    """Return a stream's batch in Chainer's layout and types on a device; an updater's converter."""
    inputs, labels = batch
    return device.send(np.ascontiguousarray(inputs)), device.send(labels.astype(np.int32))


def _gpu_count() -> int:
    try:
        return chainer.backends.cuda.cupy.cuda.runtime.getDeviceCount()
    except chainer.backends.cuda.cupy.cuda.runtime.CUDARuntimeError:
        return 0


def _cupy_problem() -> str:
    """Return why CuPy provides no GPU, as the end of a sentence."""
    if chainer.backends.cuda.available:
        return "installed but finds no GPU"
    return f"not usable ({chainer.backends.cuda._resolution_error})"
