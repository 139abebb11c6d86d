"""Chainer: numpy on the CPU, CuPy on the GPU. The loop is the one of its documentation (stock): an updater."""

import warnings

import numpy as np

from trainmark.architecture import Architecture, Node
from trainmark.batches import EpochFeed
from trainmark.errors import DeviceError
from trainmark.frameworks import chainer_compat  # noqa: F401  (before chainer)
from trainmark.frameworks.base import EVALUATION_BATCH_SIZE, Adapter
from trainmark.recipe import Optimizer
from trainmark.weights import Weights

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # pkg_resources tells everybody that it is deprecated
    import chainer
    import chainer.functions as F
    import chainer.links as L
    from chainer.training.updaters import StandardUpdater

FRAMEWORKS = {"chainer": {"packages": ["chainer"], "environment": {"CHAINER_WARN_CONV": "0"}}}

OPTIMIZERS = {
    "sgd": lambda learning_rate: chainer.optimizers.SGD(lr=learning_rate),
    "adam": lambda learning_rate, beta_1, beta_2, epsilon: chainer.optimizers.Adam(
        alpha=learning_rate, beta1=beta_1, beta2=beta_2, eps=epsilon
    ),
    "rmsprop": lambda learning_rate, rho, epsilon: chainer.optimizers.RMSprop(lr=learning_rate, alpha=rho, eps=epsilon),
}

LINKS = {"Dense": lambda node, shape: L.Linear(shape[0], int(node.attributes["units"]))}

FUNCTIONS = {
    "Flatten": lambda node, x: F.reshape(x, (len(x), -1)),
    "ReLU": lambda node, x: F.relu(x),
    "Dropout": lambda node, x: F.dropout(x, node.attributes["rate"]),
}

PARAMETERS = {"kernel": ("W", np.transpose), "bias": ("b", np.asarray)}
"""Chainer's attribute for each role, and its layout: Linear keeps (units, inputs). Each mapping is its own inverse."""

OUT_OF_MEMORY = {
    "OutOfMemoryError": ("",),
    "CUDARuntimeError": ("cudaErrorMemoryAllocation",),
    "CUDADriverError": ("CUDA_ERROR_OUT_OF_MEMORY",),
    "CUBLASError": ("CUBLAS_STATUS_ALLOC_FAILED",),
    "CuDNNError": ("CUDNN_STATUS_ALLOC_FAILED",),
    "CURANDError": ("CURAND_STATUS_ALLOCATION_FAILED",),
}
"""CuPy's exceptions that say that memory ran out: by class name, texts of which theirs must hold one."""


def create(framework: str, threads: int) -> "ChainerAdapter":
    """The adapter of a framework of FRAMEWORKS."""
    return ChainerAdapter(framework, threads)


class Network(chainer.Chain):
    """Interprets an architecture: links where a layer has parameters, functions elsewhere."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self._nodes: tuple[Node, ...] = architecture.nodes
        shapes = architecture.shapes()
        with self.init_scope():
            for node in architecture.nodes:
                if node.op in LINKS:
                    setattr(self, node.name, LINKS[node.op](node, shapes[node.inputs[0]]))

    def forward(self, images: np.ndarray) -> chainer.Variable:
        """Logits, (samples, classes)."""
        values = {"input": images}
        for node in self._nodes:
            x = values[node.inputs[0]]
            values[node.name] = getattr(self, node.name)(x) if node.op in LINKS else FUNCTIONS[node.op](node, x)
        return values[self._nodes[-1].name]


class ChainerAdapter(Adapter):
    """See `base.Adapter`."""

    out_of_memory_texts = OUT_OF_MEMORY

    def build(
        self, *, architecture: Architecture, weights: Weights, optimizer: Optimizer, device: str, dtype: str
    ) -> None:
        """See `base.Adapter.build`."""
        if device == "gpu" and not (chainer.backends.cuda.available and _gpu_count()):
            raise DeviceError(f"chainer sees no GPU: CuPy is {_cupy_trouble()}; install CuPy for this machine's CUDA")
        chainer.config.dtype = np.dtype(dtype)
        self._architecture = architecture
        self._arrays: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        self._network = Network(architecture)
        self._set_weights(weights)
        self._device = chainer.get_device("@cupy:0" if device == "gpu" else "@numpy")
        self._device.use()
        self._network.to_device(self._device)
        constants = optimizer.as_dict()
        self._optimizer = OPTIMIZERS[constants.pop("rule")](**constants).setup(self._network)
        for parameter in self._network.params():
            parameter.update_rule._init_states(parameter)  # else at the first update: `state` would lack it before

    def load(self, *, split: str, images: np.ndarray, labels: np.ndarray) -> None:
        """See `base.Adapter.load`. The arrays stay on the host: the stock updater moves each batch."""
        self._arrays[split] = (images, labels.astype(np.int32))
        self.labels[split] = labels

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """See `base.Adapter.train_epoch`."""
        self._device.xp.random.seed(feed.dropout_seed)
        losses = []

        def loss_of(images: np.ndarray, labels: np.ndarray) -> chainer.Variable:
            loss = F.softmax_cross_entropy(self._network(images), labels)
            losses.append(loss.array)
            return loss

        iterator = chainer.iterators.SerialIterator(
            chainer.datasets.TupleDataset(*self._arrays["train"]),
            feed.batch_size,
            repeat=False,
            shuffle=None,
            order_sampler=None if feed.order is None else lambda order, position: feed.order,
        )
        updater = StandardUpdater(iterator, self._optimizer, device=self._device, loss_func=loss_of)
        for _ in range(feed.steps):
            updater.update()
        return np.array([float(loss) for loss in losses])

    def predict(self, split: str) -> np.ndarray:
        """See `base.Adapter.predict`."""
        images = self._arrays[split][0]
        logits = []
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for start in range(0, len(images), EVALUATION_BATCH_SIZE):
                batch = self._device.send(images[start : start + EVALUATION_BATCH_SIZE])
                logits.append(chainer.backends.cuda.to_cpu(self._network(batch).array))
        return np.concatenate(logits)

    def weights(self) -> Weights:
        """See `base.Adapter.weights`."""
        return {
            parameter.name: np.array(convert(chainer.backends.cuda.to_cpu(variable.array)))
            for parameter, variable, convert in self._variables()
        }

    def state(self) -> dict[str, np.ndarray]:
        """See `base.Adapter.state`."""
        serializer = chainer.serializers.DictionarySerializer()
        serializer["network"].save(self._network)
        serializer["optimizer"].save(self._optimizer)
        return {name: np.array(value) for name, value in serializer.target.items()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """See `base.Adapter.set_state`."""
        deserializer = chainer.serializers.NpzDeserializer(state)
        deserializer["network"].load(self._network)
        deserializer["optimizer"].load(self._optimizer)

    def synchronize(self) -> None:
        """See `base.Adapter.synchronize`. numpy computes before it returns."""
        if self._device.xp is not np:
            chainer.backends.cuda.Stream.null.synchronize()

    def describe_device(self) -> dict[str, str]:
        """See `base.Adapter.describe_device`."""
        if isinstance(next(iter(self._network.params())).array, np.ndarray):
            return {"kind": "cpu", "name": "numpy"}
        properties = chainer.backends.cuda.cupy.cuda.runtime.getDeviceProperties(0)
        return {"kind": "gpu", "name": properties["name"].decode()}

    def device_memory_mib(self) -> float | None:
        """See `base.Adapter.device_memory_mib`. CuPy's pool gives nothing back by itself: what it holds is its most."""
        if self._device.xp is np:
            return None
        return chainer.backends.cuda.memory_pool.total_bytes() / 2**20

    def versions(self) -> dict[str, str]:
        """See `base.Adapter.versions`."""
        versions = {"chainer": chainer.__version__, "numpy": np.__version__}
        if chainer.backends.cuda.available:
            versions["cupy"] = chainer.backends.cuda.cupy.__version__
        return versions

    def _variables(self):
        """(architecture parameter, chainer parameter, layout conversion) of every trained array."""
        for parameter in self._architecture.parameters():
            layer = parameter.name.rpartition(".")[0]
            attribute, convert = PARAMETERS[parameter.role]
            yield parameter, getattr(getattr(self._network, layer), attribute), convert

    def _set_weights(self, weights: Weights) -> None:
        for parameter, variable, convert in self._variables():
            variable.array[...] = convert(weights[parameter.name])


def _gpu_count() -> int:
    try:
        return chainer.backends.cuda.cupy.cuda.runtime.getDeviceCount()
    except chainer.backends.cuda.cupy.cuda.runtime.CUDARuntimeError:
        return 0


def _cupy_trouble() -> str:
    """Why CuPy gives no GPU, as the end of a sentence."""
    if chainer.backends.cuda.available:
        return "installed and finds no GPU"
    return f"not usable ({chainer.backends.cuda._resolution_error})"
