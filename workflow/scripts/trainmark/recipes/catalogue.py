"""The recipes, as data. The constants are those of the originals, which `source` names."""

from collections.abc import Callable
from typing import Any

from trainmark.networks.zoo import alex, googlenet, googlenetbn, imdb_cnn, mlp, nin, resnet50
from trainmark.recipes.recipe import InputTransform, Optimizer, Recipe


def _adam(epsilon: float, rule: str = "adam") -> Optimizer:
    return Optimizer(rule, 1e-3, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", epsilon)))


def _mnist(**own: Any) -> dict[str, Any]:
    """Return the values that the MNIST recipes share, together with a recipe's own values."""
    common = {"input_shape": (1, 28, 28), "input": InputTransform(), "evaluated_splits": ("test",)}
    return {**common, "published_classes": 10, **own}


def _imagenet(
    architecture: Callable, initializer: str, side: int, certified_side: int, published_parameters: int, source: str
) -> Recipe:
    """Return a recipe for ImageNet, named after its network. Optimizer and batch size are those of Chainer's example.

    certified_side: height and width of the images for certificates, which then take minutes on two CPUs in float64
        instead of hours. It is the smallest size at which every pooling has several values to choose from, a Flatten
        still flattens more than one value per channel if it does at the published size, and windows leave a remainder
        where they do at that size (docs/parity.md names the one exception).
    """
    return Recipe(
        name=f"imagenet-{architecture.__name__}",
        architecture=architecture,
        input_shape=(3, side, side),
        initializer=initializer,
        optimizer=Optimizer("momentum_sgd", 0.01, (("momentum", 0.9),)),
        batch_size=32,
        input=InputTransform(subtract_mean=True, crop=(side, side), random_crop=True, random_flip=True),
        evaluated_splits=("test",),
        published_parameters=published_parameters,
        published_classes=1000,
        source=source,
        certified_side=certified_side,
    )


RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="mnist-mlp-chainer",
            architecture=mlp.mlp_1000_1000,
            initializer="lecun_normal",
            optimizer=_adam(1e-8),
            **_mnist(batch_size=100, published_parameters=1_796_010, source="chainer examples/mnist/train_mnist.py"),
        ),
        Recipe(
            name="mnist-mlp-keras",
            architecture=mlp.mlp_512_512_dropout,
            initializer="glorot_uniform",
            optimizer=Optimizer("rmsprop", 1e-3, (("rho", 0.9), ("epsilon", 1e-8))),
            **_mnist(batch_size=128, published_parameters=669_706, source="keras examples/mnist_mlp.py"),
        ),
        Recipe(
            name="mnist-mlp-flux",
            architecture=mlp.mlp_32,
            initializer="glorot_uniform",
            optimizer=_adam(1e-8, "adam_algorithm_1"),  # Flux 0.8's
            **_mnist(
                batch_size=None,
                published_parameters=25_450,
                source="FluxML model-zoo vision/mnist/mlp.jl",
                evaluated_splits=("test", "train"),
            ),
        ),
        Recipe(
            name="imdb-cnn",
            architecture=imdb_cnn.imdb_cnn,
            input_shape=(400,),
            initializer="glorot_uniform",
            optimizer=_adam(1e-7),  # Keras's since 2.1
            batch_size=32,
            input=None,
            evaluated_splits=("test",),
            published_parameters=350_751,
            published_classes=2,
            source="keras examples/imdb_cnn.py",
            vocabulary_size=imdb_cnn.VOCABULARY,
        ),
        _imagenet(alex.alex, "lecun_normal", 227, 99, 62_378_344, "chainer examples/imagenet/alex.py"),
        _imagenet(nin.nin, "he_normal", 227, 99, 7_595_176, "chainer examples/imagenet/nin.py"),
        _imagenet(googlenet.googlenet, "lecun_normal", 224, 128, 13_378_280, "chainer examples/imagenet/googlenet.py"),
        _imagenet(
            googlenetbn.googlenetbn,
            "lecun_normal",
            224,
            128,
            17_587_128,
            "chainermn examples/imagenet/googlenetbn_v2.py",
        ),
        _imagenet(
            resnet50.resnet50, "he_normal_convolutions", 224, 64, 25_557_096, "chainer examples/imagenet/resnet50.py"
        ),
    )
}
