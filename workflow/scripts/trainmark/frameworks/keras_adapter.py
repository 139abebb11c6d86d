"""Keras on TensorFlow, JAX or torch. The loop is the one of its documentation (stock): compile and fit."""

import importlib
import math
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
from keras import ops

from trainmark.architecture import Architecture
from trainmark.batches import EpochFeed
from trainmark.errors import DeviceError
from trainmark.frameworks.base import EVALUATION_BATCH_SIZE, Adapter
from trainmark.recipe import Optimizer
from trainmark.weights import Weights

FRAMEWORKS = {
    "keras-tensorflow": {
        "packages": ["tensorflow", "keras"],
        "environment": {
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        },
    },
    "keras-jax": {
        "packages": ["jax", "keras"],
        "environment": {"KERAS_BACKEND": "jax", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    },
    "keras-torch": {"packages": ["torch", "keras"], "environment": {"KERAS_BACKEND": "torch"}},
}


class Backend(NamedTuple):
    """What Keras itself has no word for: each takes the backend's own module."""

    gpus: Callable[..., list]
    gpu_name: Callable[..., str]
    wait: Callable[..., object]  # (module, an array that the last work wrote)
    peak_bytes: Callable[..., int | None]  # (module, GPU): most memory held there; None: it does not tell
    data: Callable[..., object] = lambda module, array: array  # (module, numpy array) -> what fit and predict are given
    seed: Callable[..., object] = lambda module, seed: None  # (module, seed), of a global generator
    limit_threads: Callable[..., object] = lambda module, threads: None  # JAX goes by the CPUs that the process may use
    thread_pools: Callable[..., dict[str, int]] = lambda module: {}


BACKENDS = {
    "tensorflow": Backend(
        gpus=lambda tf: tf.config.list_physical_devices("GPU"),
        gpu_name=lambda tf, gpu: tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name),
        wait=lambda tf, array: array.numpy(),
        limit_threads=lambda tf, threads: (
            tf.config.threading.set_intra_op_parallelism_threads(threads),
            tf.config.threading.set_inter_op_parallelism_threads(threads),
        ),
        thread_pools=lambda tf: {
            "tensorflow intra-op": tf.config.threading.get_intra_op_parallelism_threads(),
            "tensorflow inter-op": tf.config.threading.get_inter_op_parallelism_threads(),
        },
        peak_bytes=lambda tf, gpu: tf.config.experimental.get_memory_info("GPU:0")["peak"],
    ),
    "jax": Backend(
        gpus=lambda jax: [device for device in jax.devices() if device.platform == "gpu"],
        gpu_name=lambda jax, gpu: gpu.device_kind,
        wait=lambda jax, array: jax.block_until_ready(array),
        # None with XLA_PYTHON_CLIENT_ALLOCATOR=platform
        peak_bytes=lambda jax, gpu: (gpu.memory_stats() or {}).get("peak_bytes_in_use"),
    ),
    "torch": Backend(
        gpus=lambda torch: list(range(torch.cuda.device_count())),
        gpu_name=lambda torch, gpu: torch.cuda.get_device_name(gpu),
        wait=lambda torch, array: torch.cuda.synchronize() if torch.cuda.is_available() else None,
        data=lambda torch, array: torch.as_tensor(array),  # Keras makes float32 of numpy arrays for torch
        seed=lambda torch, seed: torch.manual_seed(seed),
        limit_threads=lambda torch, threads: torch.set_num_threads(threads),
        thread_pools=lambda torch: {"torch": torch.get_num_threads()},
        peak_bytes=lambda torch, gpu: torch.cuda.max_memory_allocated(),
    ),
}

KINDS = {"cpu": "cpu", "gpu": "gpu", "cuda": "gpu", "rocm": "gpu"}
"""The kind of a device, by a word in the name that a backend gives it. Of another kind (mps, tpu) it is that name."""

LIBRARIES_OUT_OF_MEMORY = ("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED", "CUDA_ERROR_OUT_OF_MEMORY")
"""What cuBLAS, cuDNN and CUDA's driver say where they find no memory for themselves."""

OUT_OF_MEMORY = {
    "ResourceExhaustedError": ("",),  # TensorFlow
    "InternalError": LIBRARIES_OUT_OF_MEMORY,
    "JaxRuntimeError": ("RESOURCE_EXHAUSTED", *LIBRARIES_OUT_OF_MEMORY),
    "OutOfMemoryError": ("",),  # torch
    "AcceleratorError": ("CUDA error: out of memory",),
    "RuntimeError": ("DefaultCPUAllocator: can't allocate memory", *LIBRARIES_OUT_OF_MEMORY),
}
"""Exceptions that say that memory ran out: by class name, texts of which theirs must hold one."""


class Adam(keras.optimizers.Adam):
    """Adam (optimizers.adam) with bias corrections that keep their digits.

    Keras takes 1 - beta_2**t in the weights' precision: in float32 the first steps' corrections are off by 1e-5 (.999
    is stored as .99900001), and two frameworks part that would else agree to rounding.
    """

    def update_step(self, gradient, variable, learning_rate):
        """One update of one variable."""
        step = ops.cast(self.iterations + 1, variable.dtype)
        first_correction = -ops.expm1(step * math.log(self.beta_1))
        second_correction = -ops.expm1(step * math.log(self.beta_2))
        rate = ops.cast(learning_rate, variable.dtype) * ops.sqrt(second_correction) / first_correction
        index = self._get_variable_index(variable)
        first, second = self._momentums[index], self._velocities[index]
        self.assign_add(first, (gradient - first) * (1 - self.beta_1))
        self.assign_add(second, (ops.square(gradient) - second) * (1 - self.beta_2))
        self.assign_sub(variable, first * rate / (ops.sqrt(second) + self.epsilon))


class RMSprop(keras.optimizers.RMSprop):
    """RMSprop with epsilon outside the root (optimizers.rmsprop); Keras 3 has it inside."""

    def update_step(self, gradient, variable, learning_rate):
        """One update of one variable."""
        rate = ops.cast(learning_rate, variable.dtype)
        velocity = self._velocities[self._get_variable_index(variable)]
        self.assign(velocity, self.rho * velocity + (1 - self.rho) * ops.square(gradient))
        self.assign_sub(variable, rate * gradient / (ops.sqrt(velocity) + self.epsilon))


OPTIMIZERS = {
    "sgd": keras.optimizers.SGD,
    "adam": Adam,
    "rmsprop": RMSprop,
}

LAYERS = {
    "Flatten": lambda node: keras.layers.Flatten(name=node.name),
    "Dense": lambda node: keras.layers.Dense(int(node.attributes["units"]), name=node.name),
    "ReLU": lambda node: keras.layers.ReLU(name=node.name),
    "Dropout": lambda node: keras.layers.Dropout(node.attributes["rate"], name=node.name),
}


class StepLosses(keras.metrics.Metric):
    """Keeps the loss of every step on the device, to be read once an epoch.

    Keras itself reports the running mean, from which single losses can't be had back without loss of digits, and
    a callback that reads each one would make the host wait at every step.
    """

    def __init__(self, steps: int) -> None:
        super().__init__(name="step_losses")
        self._steps = steps
        self.losses = self.add_variable(shape=(steps,), initializer="zeros", dtype=keras.config.floatx(), name="losses")
        self.step = self.add_variable(shape=(), initializer="zeros", dtype="int32", name="step")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Note the mean cross entropy of one batch. Sum over count: ops.mean works in float32 on JAX."""
        losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
        loss = ops.sum(losses) / ops.cast(ops.shape(losses)[0], losses.dtype)
        # The remainder changes nothing but what Keras on torch does first: a dry run on uninitialised memory.
        place = ops.reshape(self.step % self._steps, (1, 1))
        self.losses.assign(ops.scatter_update(self.losses, place, ops.reshape(loss, (1,))))
        self.step.assign(self.step + 1)

    def result(self):
        """The loss of the epoch's last step; 0 before it, which nobody sees: no progress bar is shown.

        A fixed place, since Keras asks at every step: torch would wait for the GPU to read an index that lies on it.
        """
        return self.losses[-1]


def create(framework: str, threads: int) -> "KerasAdapter":
    """The adapter of a framework of FRAMEWORKS."""
    return KerasAdapter(framework, threads)


class KerasAdapter(Adapter):
    """See `base.Adapter`."""

    out_of_memory_texts = OUT_OF_MEMORY

    def __init__(self, framework: str, threads: int) -> None:
        super().__init__(framework, threads)
        self._module = importlib.import_module(keras.backend.backend())
        self._backend = BACKENDS[keras.backend.backend()]
        self._backend.limit_threads(self._module, threads)

    def build(
        self, *, architecture: Architecture, weights: Weights, optimizer: Optimizer, device: str, dtype: str
    ) -> None:
        """See `base.Adapter.build`."""
        if device == "gpu" and not self._backend.gpus(self._module):
            raise DeviceError(f"{self.framework} sees no GPU: install the GPU build of {keras.backend.backend()}")
        if dtype == "float64" and keras.backend.backend() == "jax":
            self._module.config.update("jax_enable_x64", True)
        keras.config.set_max_epochs(None)  # environment variables set them, and would cut training short in silence
        keras.config.set_max_steps_per_epoch(None)
        keras.config.set_floatx(dtype)
        keras.config.set_dtype_policy(dtype)  # once read, it does not follow floatx
        keras.config.set_image_data_format("channels_first")
        self._architecture = architecture
        self._arrays: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._metric: StepLosses | None = None
        self._model = _model(architecture)
        for parameter, variable in self._variables():
            variable.assign(weights[parameter.name].astype(dtype))
        constants = optimizer.as_dict()
        self._optimizer = OPTIMIZERS[constants.pop("rule")](**constants)
        self._optimizer.build(self._model.trainable_variables)

    def load(self, *, split: str, images: np.ndarray, labels: np.ndarray) -> None:
        """See `base.Adapter.load`. The arrays stay on the host: the stock fit moves each batch."""
        self._arrays[split] = (
            self._backend.data(self._module, images),
            self._backend.data(self._module, labels.astype(np.int32)),
        )
        self.labels[split] = labels

    def compile(self, feed: EpochFeed) -> None:
        """See `base.Adapter.compile`."""
        self._make_room(feed.steps)  # else for the few steps, and again for the whole epoch
        super().compile(feed)

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """See `base.Adapter.train_epoch`."""
        self._make_room(feed.steps)
        # In a callback: on torch, fit first dry-runs the network, which would draw from the generator.
        seeding = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda epoch, logs: self._seed_dropout(feed.dropout_seed)
        )
        images, labels = self._arrays["train"]
        if feed.order is not None:
            images, labels = images[feed.order], labels[feed.order]
        self._model.fit(images, labels, batch_size=feed.batch_size, shuffle=False, verbose=0, callbacks=[seeding])
        return np.asarray(ops.convert_to_numpy(self._metric.losses), np.float64)[: feed.steps]

    def predict(self, split: str) -> np.ndarray:
        """See `base.Adapter.predict`."""
        return self._model.predict(self._arrays[split][0], batch_size=EVALUATION_BATCH_SIZE, verbose=0)

    def weights(self) -> Weights:
        """See `base.Adapter.weights`."""
        return {parameter.name: np.array(ops.convert_to_numpy(variable)) for parameter, variable in self._variables()}

    def state(self) -> dict[str, np.ndarray]:
        """See `base.Adapter.state`."""
        return {f"{i:04d}": np.array(ops.convert_to_numpy(variable)) for i, variable in enumerate(self._state())}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """See `base.Adapter.set_state`."""
        for i, variable in enumerate(self._state()):
            variable.assign(state[f"{i:04d}"])

    def synchronize(self) -> None:
        """See `base.Adapter.synchronize`."""
        self._backend.wait(self._module, self._model.trainable_variables[-1].value)

    def describe_device(self) -> dict[str, str]:
        """See `base.Adapter.describe_device`."""
        place = str(_device_of(self._model.trainable_variables[0].value)).lower()
        kind = next((kind for word, kind in KINDS.items() if word in place), place)
        if kind != "gpu":
            return {"kind": kind, "name": keras.backend.backend()}
        return {"kind": "gpu", "name": str(self._backend.gpu_name(self._module, self._backend.gpus(self._module)[0]))}

    def device_memory_mib(self) -> float | None:
        """See `base.Adapter.device_memory_mib`."""
        if self.describe_device()["kind"] != "gpu":
            return None
        try:
            peak_bytes = self._backend.peak_bytes(self._module, self._backend.gpus(self._module)[0])
        except (ValueError, RuntimeError):  # TensorFlow with TF_GPU_ALLOCATOR=cuda_malloc_async
            return None
        return None if peak_bytes is None else peak_bytes / 2**20

    def thread_pools(self) -> list[dict]:
        """See `base.Adapter.thread_pools`."""
        pools = self._backend.thread_pools(self._module)
        return [{"library": library, "threads": threads} for library, threads in pools.items()]

    def versions(self) -> dict[str, str]:
        """See `base.Adapter.versions`."""
        modules = (keras, self._module, np)
        return {module.__name__: module.__version__ for module in modules}

    def _make_room(self, steps: int) -> None:
        """Have the model compiled with a metric that has room for so many losses; anew only where it has less."""
        if self._metric is None or self._metric.losses.shape[0] < steps:
            self._metric = StepLosses(steps)
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
            self._model.compile(optimizer=self._optimizer, loss=loss, metrics=[self._metric])

    def _seed_dropout(self, seed: int) -> None:
        # Not keras.utils.set_random_seed: on JAX it imports TensorFlow, on TensorFlow it clears caches at every epoch.
        self._backend.seed(self._module, seed)
        dropouts = [layer for layer in self._model.layers if isinstance(layer, keras.layers.Dropout)]
        for i, layer in enumerate(dropouts):
            layer.seed_generator.state.assign(np.array([seed, i], "uint32"))

    def _variables(self):
        """(architecture parameter, Keras variable) of every trained array; Keras keeps the canonical layout."""
        for parameter in self._architecture.parameters():
            layer, _, role = parameter.name.rpartition(".")
            yield parameter, getattr(self._model.get_layer(layer), role)

    def _state(self) -> list:
        return [*self._model.trainable_variables, *self._optimizer.variables]


def _model(architecture: Architecture) -> keras.Model:
    """The architecture as a Keras functional model, logits out."""
    values = {"input": keras.Input(architecture.input_shape, name="input")}
    for node in architecture.nodes:
        values[node.name] = LAYERS[node.op](node)(values[node.inputs[0]])
    return keras.Model(values["input"], values[architecture.nodes[-1].name])


def _device_of(array: object) -> object:
    """Where an array of any backend lies: TensorFlow, JAX and torch each name it `device`."""
    return array.device
