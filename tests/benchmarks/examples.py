"""The examples of the frameworks' documentations: the same recipes, without trainmark. `loops.py` runs beside them.

Chainer: examples/mnist/train_mnist.py of Chainer 7.8.1, with a Classifier, a SerialIterator and a StandardUpdater.
Keras: "Simple MNIST convnet" and the guide "Training & evaluation with the built-in methods" of Keras 3, a Sequential
model, compile and fit with the accuracy as metric. ResNet-50: `keras.applications` and `chainer.links`, untrained;
Keras's has biases in its convolutions, which the recipe's has not.
"""

import random
import threading
from collections.abc import Callable
from contextlib import nullcontext

import numpy as np


def keras_trainer(recipe: str, inputs: np.ndarray, labels: np.ndarray, batch_size: int, shares: bool = False):
    """Return a function that trains one epoch with Keras.

    shares: whether these are the samples of one of several workers, as in the guide "Distributed training with JAX".
    """
    import keras
    from keras import layers

    models = {
        "mnist-mlp-chainer": lambda: [_dense(layers, 1000), _dense(layers, 1000), layers.Dense(10)],
        "mnist-mlp-keras": lambda: [
            _dense(layers, 512), layers.Dropout(0.2), _dense(layers, 512), layers.Dropout(0.2), layers.Dense(10),
        ],
        "mnist-mlp-flux": lambda: [_dense(layers, 32), layers.Dense(10)],
        "imdb-cnn": lambda: [
            layers.Embedding(5000, 50), layers.Dropout(0.2), layers.Conv1D(250, 3, activation="relu"),
            layers.GlobalMaxPooling1D(), _dense(layers, 250), layers.Dropout(0.2), layers.Dense(1),
        ],
    }  # fmt: skip
    if recipe == "imagenet-resnet50":
        inputs = np.ascontiguousarray(np.moveaxis(inputs, 1, -1))

    def build() -> keras.Model:
        if recipe == "imagenet-resnet50":
            return keras.applications.ResNet50(weights=None, classifier_activation=None)
        return keras.Sequential(models[recipe]())

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if recipe == "imdb-cnn":
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
    optimizers = {
        "mnist-mlp-keras": keras.optimizers.RMSprop,
        "imagenet-resnet50": lambda: keras.optimizers.SGD(0.01, momentum=0.9),
    }
    if recipe.startswith("mnist"):
        inputs = inputs.reshape(len(inputs), -1)

    def train_all(**more: object) -> None:
        distribution = keras.distribution.DataParallel(auto_shard_dataset=False) if shares else None
        with distribution.scope() if distribution else nullcontext():
            random.seed(0)  # the first states of dropout have to be the same in all processes
            model = build()
            model.compile(loss=loss, optimizer=optimizers.get(recipe, keras.optimizers.Adam)(), metrics=["accuracy"])
            model.fit(inputs, labels, batch_size=batch_size, verbose=0, **more)

    return _epochs_of_one_call(train_all)


def _epochs_of_one_call(fit: Callable[..., object]) -> Callable[[], None]:
    """Return a function that lets a call of `fit` train its next epoch.

    As in the examples, one call trains all epochs: the start of a call is a part of the time of none of them.
    """
    import keras

    start, end = threading.Semaphore(0), threading.Semaphore(0)

    def pause(*_: object) -> None:
        end.release()
        start.acquire()

    def train_all() -> None:
        start.acquire()
        fit(epochs=10**9, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=pause)])

    thread = threading.Thread(target=train_all, daemon=True)
    thread.start()

    def train() -> None:
        start.release()
        while not end.acquire(timeout=1):
            if not thread.is_alive():
                raise RuntimeError("the example failed; its traceback is above")

    return train


def _dense(layers, units: int):
    return layers.Dense(units, activation="relu")


def _chainer_networks() -> dict:
    """Return functions that build Chainer's networks, by recipe."""
    from trainmark.frameworks.chainer_layers import F, L, chainer

    class MLP(chainer.Chain):
        """A multi-layer perceptron."""

        def __init__(self, *units: int, dropout: float = 0.0) -> None:
            super().__init__()
            self.dropout = dropout
            with self.init_scope():
                self.hidden = chainer.ChainList(*(L.Linear(None, count) for count in units))
                self.last = L.Linear(None, 10)

        def forward(self, x):
            """Return the logits."""
            for link in self.hidden:
                x = F.relu(link(x))
                x = F.dropout(x, self.dropout) if self.dropout else x
            return self.last(x)

    class Sentiment(chainer.Chain):
        """The convolution over word vectors."""

        def __init__(self) -> None:
            super().__init__()
            with self.init_scope():
                self.embedding = L.EmbedID(5000, 50)
                self.convolution = L.Convolution1D(50, 250, 3)
                self.hidden = L.Linear(250, 250)
                self.last = L.Linear(250, 2)

        def forward(self, x):
            """Return the logits."""
            x = F.dropout(F.transpose(self.embedding(x), (0, 2, 1)), 0.2)
            x = F.max(F.relu(self.convolution(x)), axis=2)
            return self.last(F.relu(F.dropout(self.hidden(x), 0.2)))

    class ResNet50(chainer.Chain):
        """Chainer's own network, without its softmax."""

        def __init__(self) -> None:
            super().__init__()
            with self.init_scope():
                self.layers = L.ResNet50Layers(pretrained_model=None)

        def forward(self, x):
            """Return the logits."""
            return self.layers(x, layers=["fc6"])["fc6"]

    return {
        "mnist-mlp-chainer": lambda: MLP(1000, 1000),
        "mnist-mlp-keras": lambda: MLP(512, 512, dropout=0.2),
        "mnist-mlp-flux": lambda: MLP(32),
        "imdb-cnn": Sentiment,
        "imagenet-resnet50": ResNet50,
    }


def chainer_trainer(recipe: str, inputs: np.ndarray, labels: np.ndarray, batch_size: int, shares: bool = False):
    """Return a function that trains one epoch with Chainer.

    shares: whether these are the samples of one of several workers, as in chainermn/examples/mnist/train_mnist.py.
    """
    from trainmark.frameworks.chainer_layers import L, chainer

    model = L.Classifier(_chainer_networks()[recipe]())
    optimizers = {
        "mnist-mlp-keras": lambda: chainer.optimizers.RMSprop(lr=1e-3, alpha=0.9),  # Keras's defaults
        "imagenet-resnet50": chainer.optimizers.MomentumSGD,
    }
    optimizer = optimizers.get(recipe, chainer.optimizers.Adam)()
    if shares:
        import chainermn

        optimizer = chainermn.create_multi_node_optimizer(optimizer, chainermn.create_communicator("naive"))
    optimizer.setup(model)
    if recipe.startswith("mnist"):
        inputs = inputs.reshape(len(inputs), -1)
    dataset = chainer.datasets.TupleDataset(inputs, labels)
    iterator = chainer.iterators.SerialIterator(dataset, batch_size)
    # As with --device 0 of the example, where there is a GPU.
    device = chainer.get_device("@cupy:0" if chainer.backends.cuda.available and _sees_gpu() else "@numpy")
    device.use()
    model.to_device(device)
    updater = chainer.training.updaters.StandardUpdater(iterator, optimizer, device=device)

    def train() -> None:
        before = updater.epoch
        while updater.epoch == before:
            updater.update()
        if device.xp is not np:
            chainer.backends.cuda.Stream.null.synchronize()

    return train


def _sees_gpu() -> bool:
    """Return whether CuPy sees a GPU."""
    import cupy

    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False
