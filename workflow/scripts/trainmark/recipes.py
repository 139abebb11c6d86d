"""The recipes, as data.

Constants are those of the originals, named in `source`. Standard library only (see matrix.py).
"""

from trainmark.architectures import mlp
from trainmark.recipe import InputTransform, Optimizer, Recipe

_ADAM = Optimizer("adam", 1e-3, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8)))
_MNIST = {"input_shape": (1, 28, 28), "input": InputTransform(), "published_classes": 10}

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="mnist-mlp-chainer",
            architecture=mlp.mlp_1000_1000,
            initializer="lecun_normal",
            optimizer=_ADAM,
            batch_size=100,
            evaluated_splits=("test",),
            published_parameters=1_796_010,
            source="chainer examples/mnist/train_mnist.py",
            **_MNIST,
        ),
        Recipe(
            name="mnist-mlp-keras",
            architecture=mlp.mlp_512_512_dropout,
            initializer="glorot_uniform",
            optimizer=Optimizer("rmsprop", 1e-3, (("rho", 0.9), ("epsilon", 1e-8))),
            batch_size=128,
            evaluated_splits=("test",),
            published_parameters=669_706,
            source="keras examples/mnist_mlp.py",
            **_MNIST,
        ),
        Recipe(
            name="mnist-mlp-flux",
            architecture=mlp.mlp_32,
            initializer="glorot_uniform",
            optimizer=_ADAM,
            batch_size=None,
            evaluated_splits=("test", "train"),
            published_parameters=25_450,
            source="FluxML model-zoo vision/mnist/mlp.jl",
            **_MNIST,
        ),
    )
}
