"""The adapter of Keras on TensorFlow, JAX or torch. The loop is that of its documentation: compile and fit."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import keras
import numpy as np
from keras import ops

from trainmark.frameworks import jax_platform, torch_platform
from trainmark.frameworks.adapter import (
    LIBRARIES_OUT_OF_MEMORY,
    ObservedAdapter,
    check_array,
    evaluation_batch_size,
    random_matrix,
)
from trainmark.frameworks.keras_layers import Heads, layer_outputs
from trainmark.frameworks.keras_losses import CrossEntropy, StepLosses
from trainmark.frameworks.keras_optimizers import STATES, create_optimizer, set_rates
from trainmark.frameworks.layouts import to_channels_first, to_channels_last
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.stream import Batch, Stream
from trainmark.recipes.update_rules import SLOTS

FRAMEWORKS = {
    "keras-tensorflow": {
        "packages": ["tensorflow", "keras"],
        "newest_python": 13,
        "environment": {
            "KERAS_BACKEND": "tensorflow",
            "KERAS_HOME": "/dev/null",  # no keras.json of the user: with some of its settings no training runs
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
            "NVIDIA_TF32_OVERRIDE": "0",
        },
        "cpu_environment": {"TF_CPP_MIN_LOG_LEVEL": "3"},  # it logs as an error that it finds no GPU
        "unused_packages": ["cv2", "jax", "matplotlib", "pandas", "scipy", "sklearn"],
        "also_called": ["tensorflow", "tf", "keras"],
        "variables": ["KERAS_"],
    },
    "keras-jax": {
        "packages": ["jax", "keras"],
        "environment": {
            "KERAS_BACKEND": "jax",
            "KERAS_HOME": "/dev/null",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "NVIDIA_TF32_OVERRIDE": "0",
            "JAX_ENABLE_COMPILATION_CACHE": "false",  # a user's own; open_compilation_cache turns it on
            "JAX_NUM_CPU_DEVICES": "1",  # whatever XLA_FLAGS say
        },
        "cpu_environment": {"JAX_PLATFORMS": "cpu"},  # otherwise its GPU build logs a traceback if there is no driver
        "unused_packages": ["cv2", "matplotlib", "pandas", "requests", "sklearn"],
    },
    "keras-torch": {
        "set_up": "make torch",
        "packages": ["torch", "keras"],
        "environment": {"KERAS_BACKEND": "torch", "KERAS_HOME": "/dev/null", "NVIDIA_TF32_OVERRIDE": "0"},
        "unused_packages": ["cv2", "matplotlib", "pandas", "requests", "scipy", "sklearn"],
        "also_called": ["keras-pytorch"],
    },
}


class Backend(NamedTuple):
    """What Keras has no common interface for. Each function takes the backend's module first.

    gpus: (module) -> list of GPUs.
    gpu_name: (module, GPU) -> its name.
    wait: (module, arrays that the last work wrote); waits until they are done.
    refuse_tf32: (module); makes products of float32 use float32 instead of NVIDIA's TensorFloat-32.
    peak_bytes: (module, GPU) -> peak memory there; None if the backend does not report it.
    data: (module, numpy array) -> array for fit and predict.
    stream: (module, iterator of (inputs, labels), shape of one input, its dtype) -> what fit and predict take.
    batches: (module, inputs, labels) -> function (feed) -> its batches, as fit takes them; None if fit is faster with
        an array in the epoch's order.
    uncached: (module, array) -> the array, without the copy of it that the backend keeps on the host once it is read.
    seed: (module, seed); seeds a global generator.
    limit_threads: (module, threads). JAX needs none: it follows the CPUs that the process may use.
    thread_pools: (module) -> threads by thread pool.
    open_compilation_cache: (module, folder); see `Adapter.open_compilation_cache`.
    """

    gpus: Callable[..., list]
    gpu_name: Callable[..., str]
    wait: Callable[..., object]
    refuse_tf32: Callable[..., object]
    peak_bytes: Callable[..., int | None]
    data: Callable[..., Any] = lambda module, array: array
    stream: Callable[..., Any] = lambda module, batches, shape, dtype: batches
    batches: Callable[..., Callable[[EpochFeed], Any]] | None = None
    uncached: Callable[..., Any] = lambda module, array: array
    seed: Callable[..., object] = lambda module, seed: None
    limit_threads: Callable[..., object] = lambda module, threads: None
    thread_pools: Callable[..., dict[str, int]] = lambda module: {}
    open_compilation_cache: Callable[..., Mapping[str, int] | None] = lambda module, folder: None
    float32_ops: tuple[str, ...] = ()


def _tensorflow_batches(tf: Any, inputs: np.ndarray, labels: np.ndarray) -> Callable[[EpochFeed], Any]:
    """See `Backend.batches`. Of arrays, fit would make tensors in every epoch.

    The order is a variable, so that the epochs share a dataset, and batches are slices of it: a dataset of its elements
    would take milliseconds for thousands of them.
    """
    with tf.device("CPU"):
        arrays = tf.convert_to_tensor(inputs), tf.convert_to_tensor(labels)
        order = tf.Variable(np.zeros(0, np.int64), shape=[None], trainable=False)

    @cache
    def dataset(samples: int, batch_size: int, ordered: bool) -> Any:
        def batch(start: Any) -> tuple:
            place = slice(start, tf.minimum(start + batch_size, samples))
            return tuple(tf.gather(array, order[place]) if ordered else array[place] for array in arrays)

        return _untuned(tf, tf.data.Dataset.range(0, samples, batch_size).map(batch).prefetch(1))

    def batches(feed: EpochFeed) -> Any:
        if feed.order is not None:
            order.assign(feed.order)
        return dataset(feed.samples, feed.batch_size, feed.order is not None)

    return batches


def _untuned(tf: Any, dataset: Any) -> Any:
    """Return a dataset that TensorFlow does not tune while it is read.

    The thread that tunes wakes after 10 ms, then 20 ms, then 40 ms, and so on. An epoch often waits at its end until it
    wakes, and takes up to twice as long.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


BACKENDS = {
    "tensorflow": Backend(
        gpus=lambda tf: tf.config.list_physical_devices("GPU"),
        gpu_name=lambda tf, gpu: tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name),
        wait=lambda tf, arrays: arrays[-1].numpy(),
        refuse_tf32=lambda tf: tf.config.experimental.enable_tensor_float_32_execution(False),
        limit_threads=lambda tf, threads: (
            tf.config.threading.set_intra_op_parallelism_threads(threads),
            tf.config.threading.set_inter_op_parallelism_threads(threads),
        ),
        thread_pools=lambda tf: {
            "tensorflow intra-op": tf.config.threading.get_intra_op_parallelism_threads(),
            "tensorflow inter-op": tf.config.threading.get_inter_op_parallelism_threads(),
        },
        peak_bytes=lambda tf, gpu: tf.config.experimental.get_memory_info("GPU:0")["peak"],
        batches=_tensorflow_batches,
        # Of an iterator Keras makes a dataset that takes batches ahead, in a thread: the training would seem to wait.
        stream=lambda tf, batches, shape, dtype: _untuned(
            tf,
            tf.data.Dataset.from_generator(
                lambda: batches,
                output_signature=(tf.TensorSpec((None, *shape), dtype), tf.TensorSpec((None,), "int32")),
            ),
        ),
    ),
    "jax": Backend(
        gpus=jax_platform.gpus,
        gpu_name=jax_platform.gpu_name,
        wait=lambda jax, arrays: jax.block_until_ready(arrays),
        refuse_tf32=jax_platform.refuse_tf32,
        batches=lambda jax, *arrays: lambda feed: feed.batches(*arrays),
        uncached=lambda jax, array: array.addressable_data(0),
        open_compilation_cache=jax_platform.open_compilation_cache,
        peak_bytes=jax_platform.peak_bytes,
    ),
    "torch": Backend(
        gpus=torch_platform.gpus,
        gpu_name=torch_platform.gpu_name,
        wait=lambda torch, arrays: torch_platform.synchronize(torch),
        refuse_tf32=torch_platform.refuse_tf32,
        data=lambda torch, array: torch.as_tensor(array),  # Keras would convert numpy arrays to float32 for torch
        seed=lambda torch, seed: torch.manual_seed(seed),
        limit_threads=lambda torch, threads: torch.set_num_threads(threads),
        thread_pools=lambda torch: {"torch": torch.get_num_threads()},
        peak_bytes=torch_platform.peak_bytes,
        float32_ops=("Dense",),  # Keras multiplies two float64 in float32 (contract_suite.py: test_float32_ops_...)
    ),
}

KINDS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu"}
"""Kind of a device by a word in the backend's name for it. For others (mps, tpu) the kind is that name."""

OUT_OF_MEMORY = {
    "ResourceExhaustedError": ("",),  # TensorFlow
    "InternalError": ("Dst tensor is not initialized", *LIBRARIES_OUT_OF_MEMORY),  # TensorFlow: no memory for a copy
    **jax_platform.OUT_OF_MEMORY,
    **torch_platform.OUT_OF_MEMORY,
}
"""See `Adapter.out_of_memory_texts`."""


def create(framework: str, threads: int) -> "KerasAdapter":
    """Return the adapter of a framework of FRAMEWORKS."""
    return KerasAdapter(framework, threads)


class KerasAdapter(ObservedAdapter):
    """See `adapter.Adapter`."""

    out_of_memory_texts = OUT_OF_MEMORY
    _replaced_layers: Mapping[str, Callable] = MappingProxyType({})

    def __init__(self, framework: str, threads: int) -> None:
        super().__init__(framework, threads)
        self._module = importlib.import_module(keras.backend.backend())
        self._backend = BACKENDS[keras.backend.backend()]
        self._backend.limit_threads(self._module, threads)
        self._backend.refuse_tf32(self._module)
        self.float32_ops = self._backend.float32_ops

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
        self.check_gpus(device, self._backend.gpus(self._module), keras.backend.backend())
        if keras.backend.backend() == "jax":
            self._module.config.update("jax_enable_x64", dtype == "float64")
        keras.config.set_max_epochs(None)  # environment variables can set them and silently shorten training
        keras.config.set_max_steps_per_epoch(None)
        keras.config.set_floatx(dtype)
        keras.config.set_dtype_policy(dtype)  # it does not follow floatx after its first use
        keras.config.set_image_data_format("channels_last")
        self._architecture = architecture
        self._splits: dict[str, tuple[Any, Any]] = {}
        self._stream_error: Exception | None = None
        self._metric: StepLosses | None = None
        self._outputs = layer_outputs(self.framework, architecture, observed_batch, self._replaced_layers)
        self._model, self._evaluated = _models(architecture, self._outputs)
        for parameter, variable in self._variables():
            check_array(self.framework, parameter, None if variable is None else variable.shape)
        self.set_weights(weights)
        self._rule = optimizer.rule
        self._optimizer = create_optimizer(stores_gradients=bool(observed_batch), **optimizer.as_dict())
        self._optimizer.build(self._model.trainable_variables)

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays stay on the host; the stock fit moves each batch."""
        self._splits[split] = (
            inputs if isinstance(inputs, Stream) else self._backend.data(self._module, to_channels_last(inputs)),
            self._backend.data(self._module, labels.astype(np.int32)),
        )
        self._fed: Callable[[EpochFeed], Any] | None = None  # see `Backend.batches`

    def compile(self, feed: EpochFeed) -> None:
        self._ensure_metric(feed.steps)  # otherwise compiled for these few steps, and again for the whole epoch
        super().compile(feed)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        set_rates(self._optimizer, feed.rates)
        self._ensure_metric(feed.steps)
        # Seeded in a callback: on torch, fit first does a dry run of the network, which would draw from the generator.
        seeding = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: self._seed_dropout(feed.dropout_seed)
        )
        with self._raising_stream_errors():
            self._model.fit(**self._training_data(feed), shuffle=False, verbose=0, callbacks=[seeding])
        assert self._metric is not None  # _ensure_metric made it
        return np.asarray(ops.convert_to_numpy(self._metric.losses), np.float64)[: feed.steps]

    def _training_data(self, feed: EpochFeed) -> dict[str, Any]:
        inputs, labels = self._splits["train"]
        if isinstance(inputs, Stream):
            return {"x": self._batches(inputs, inputs.training_batches(feed)), "steps_per_epoch": feed.steps}
        if self._backend.batches:
            if self._fed is None:
                self._fed = self._backend.batches(self._module, inputs, labels)
            return {"x": self._fed(feed), "steps_per_epoch": feed.steps}
        if feed.order is not None:
            inputs, labels = inputs[feed.order], labels[feed.order]
        return {"x": inputs, "y": labels, "batch_size": feed.batch_size}

    def _batches(self, stream: Stream, batches: Iterator[Batch]) -> Any:
        """Return the batches of a stream in the form that fit and predict take."""
        channels, *sides = stream.input_shape
        return self._backend.stream(self._module, self._converted(batches), (*sides, channels), stream.dtype)

    def _converted(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        try:
            for inputs, labels in batches:
                yield to_channels_last(inputs), labels.astype(np.int32)
        except Exception as error:
            self._stream_error = error
            raise

    @contextmanager
    def _raising_stream_errors(self) -> Iterator[None]:
        """Raise an error of a stream as it is; TensorFlow wraps it into one of its own."""
        self._stream_error = None
        try:
            yield
        except Exception:
            if self._stream_error:
                raise self._stream_error from None
            raise

    def predict(self, split: str) -> np.ndarray:
        inputs = self._splits[split][0]
        if isinstance(inputs, Stream):
            size = inputs.evaluation_batch_size
            batches = self._batches(inputs, inputs.stored_batches(size))
            with self._raising_stream_errors():
                return self._evaluated.predict(batches, steps=ceil(len(inputs.labels) / size), verbose=0)
        return self._evaluated.predict(inputs, batch_size=evaluation_batch_size(self._architecture), verbose=0)

    def weights(self) -> Weights:
        return {
            parameter.name: np.array(ops.convert_to_numpy(self._backend.uncached(self._module, variable.value)))
            for parameter, variable in self._variables()
        }

    def set_weights(self, weights: Weights) -> None:
        for parameter, variable in self._variables():
            variable.assign(weights[parameter.name].astype(keras.config.floatx()))

    def counted(self) -> dict[str, int]:
        assert self._metric is not None  # _ensure_metric made it
        counts = {"samples": self._metric.samples, "batches": self._metric.step, "updates": self._optimizer.iterations}
        return {name: int(ops.convert_to_numpy(count)) for name, count in counts.items()}

    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        inputs = self._splits[split][0][np.asarray(indices)]
        nodes = self._architecture.nodes if training else self._architecture.inference_nodes()
        all_outputs = keras.Model(self._outputs["input"], {node.name: self._outputs[node.name] for node in nodes})
        outputs = self._call(all_outputs, inputs, training)
        values = {"input": inputs, **{node.name: outputs[node.name] for node in nodes}}
        return {name: to_channels_first(ops.convert_to_numpy(value)) for name, value in values.items()}

    def _call(self, model: keras.Model, inputs: Any, training: bool) -> dict[str, Any]:
        """Return the outputs of a model, and leave running statistics as they are."""
        state = self.state()
        outputs = model(inputs, training=training)
        self.set_state(state)
        return outputs

    def gradients(self) -> Weights:
        pairs = zip(self._model.trainable_variables, self._optimizer.last_gradients, strict=True)
        by_variable = {id(variable): ops.convert_to_numpy(gradient) for variable, gradient in pairs}
        return {
            parameter.name: np.array(by_variable[id(variable)])
            for parameter, variable in self._variables()
            if parameter.trained
        }

    def slots(self) -> Weights:
        return {name: np.array(ops.convert_to_numpy(variable)) for name, variable in self._slots()}

    def set_slots(self, slots: Weights, updates: int) -> None:
        for name, variable in self._slots():
            variable.assign(slots[name].astype(keras.config.floatx()))
        self._optimizer.iterations.assign(updates)

    def _slots(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, the optimizer's variable)."""
        places = {id(variable): place for place, variable in enumerate(self._model.trainable_variables)}
        for slot, own in zip(SLOTS[self._rule], STATES[self._rule], strict=True):
            of_slot = getattr(self._optimizer, own)
            for parameter, variable in self._variables():
                if parameter.trained:
                    yield f"{parameter.name}.{slot}", of_slot[places[id(variable)]]

    def set_masks(self, masks: Weights) -> None:
        for name, mask in masks.items():
            layer = self._model.get_layer(name)
            layer.mask.assign(to_channels_last(mask).astype(keras.config.floatx()))

    def state(self) -> dict[str, np.ndarray]:
        return {f"{i:04d}": np.array(ops.convert_to_numpy(variable)) for i, variable in enumerate(self._state())}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        for i, variable in enumerate(self._state()):
            variable.assign(state[f"{i:04d}"])

    def synchronize(self) -> None:
        self._backend.wait(self._module, [variable.value for variable in self._model.trainable_variables])

    def describe_device(self) -> dict[str, str]:
        device = str(_device_of(self._first_array())).lower()
        kind = next((kind for word, kind in KINDS.items() if word in device), device)
        if kind != "gpu":
            return {"kind": kind, "name": keras.backend.backend()}
        return {"kind": "gpu", "name": str(self._backend.gpu_name(self._module, self._backend.gpus(self._module)[0]))}

    def _first_array(self) -> Any:
        return self._model.trainable_variables[0].value

    def device_memory_mib(self) -> float | None:
        if self.describe_device()["kind"] != "gpu":
            return None
        try:
            peak_bytes = self._backend.peak_bytes(self._module, self._backend.gpus(self._module)[0])
        except (ValueError, RuntimeError):  # TensorFlow with TF_GPU_ALLOCATOR=cuda_malloc_async
            return None
        return None if peak_bytes is None else peak_bytes / 2**20

    def open_compilation_cache(self, folder: Path) -> Mapping[str, int] | None:
        return self._backend.open_compilation_cache(self._module, folder)

    def thread_pools(self) -> list[dict]:
        pools = self._backend.thread_pools(self._module)
        return [{"library": library, "threads": threads} for library, threads in pools.items()]

    def matrix_operation(self, operation: str, side: int, times: int) -> Callable[[], object]:
        """See `adapter.Adapter.matrix_operation`. A GPU works in order: the last result is the last to be ready."""
        compute = getattr(ops, operation)
        matrices = [ops.convert_to_tensor(random_matrix(side, seed), "float32") for seed in (1, 2)]

        def work() -> None:
            for _ in range(times):
                result = compute(*matrices)
            self._backend.wait(self._module, [result[0, 0]])  # one value: TensorFlow copies what it waits for

        return work

    def versions(self) -> dict[str, str]:
        modules = (keras, self._module, np)
        return {module.__name__: module.__version__ for module in modules}

    def _ensure_metric(self, steps: int) -> None:
        """Compile the model with a metric that stores at least this many losses, unless it has one already."""
        if self._metric is None or self._metric.losses.shape[0] < steps:
            weights = tuple(weight for _, weight in self._architecture.auxiliary)
            self._metric = StepLosses(steps, weights)
            self._model.compile(optimizer=self._optimizer, loss=CrossEntropy(weights), weighted_metrics=[self._metric])

    def _seed_dropout(self, seed: int) -> None:
        # Not keras.utils.set_random_seed: on JAX it imports TensorFlow, on TensorFlow it clears caches in every epoch.
        self._backend.seed(self._module, seed)
        dropouts = [layer for layer in self._model.layers if isinstance(layer, keras.layers.Dropout)]
        for i, layer in enumerate(dropouts):
            # A layer counts its steps up from the second number, so the layers begin far from each other.
            layer.seed_generator.state.assign(np.array([seed, i << 24], "uint32"))

    def _variables(self) -> Iterator[tuple[Parameter, Any]]:
        """Yield (architecture parameter, Keras variable) of every array. Keras has the layout of the architecture."""
        for parameter in self._architecture.arrays():
            yield parameter, getattr(self._model.get_layer(parameter.layer), parameter.role)

    def _state(self) -> list:
        return [*(variable for _, variable in self._variables()), *self._optimizer.variables]


def _models(architecture: Architecture, outputs: dict) -> tuple[keras.Model, keras.Model]:
    """Return (model to train, with all heads; model to evaluate, with the main head), which share their layers."""
    evaluated = keras.Model(outputs["input"], outputs[architecture.output])
    if not architecture.auxiliary:
        return evaluated, evaluated
    heads = [outputs[name] for name in architecture.heads]
    return keras.Model(outputs["input"], Heads()(heads)), evaluated


def _device_of(array: Any) -> object:
    return array.device
