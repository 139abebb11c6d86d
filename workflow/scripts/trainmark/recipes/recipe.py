"""A recipe: architecture, input transform, optimizer and batch size."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, ClassVar, TypeVar

from trainmark.errors import why_not_made
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Shape

DTYPE = "float32"
"""The dtype of runs."""


Data = TypeVar("Data")


def reporting(cls: type[Data]) -> type[Data]:
    """Let a dataclass also be made with arguments that it does not have, or without some; `problem` says which.

    A recipe is data that users write. What is wrong with one is a sentence about the config that names it (`checks`):
    an error would end every import, also for configs that do not.
    """
    make: Callable[..., None] = cls.__init__
    names = [field.name for field in fields(cls)]  # type: ignore[arg-type]

    def __init__(self: Any, *values: Any, **named: Any) -> None:
        given = dict(zip(names, values, strict=False)) | named
        problem = why_not_made(cls, given)
        if problem:
            object.__setattr__(self, "problem", problem)
            optional = {field.name for field in fields(cls) if field.default is not MISSING}  # type: ignore[arg-type]
            given = {name: given.get(name, f"no {name}") for name in names if name in given or name not in optional}
        make(self, **given)

    cls.__init__ = __init__  # type: ignore[method-assign]
    return cls


@reporting
@dataclass(frozen=True)
class InputTransform:
    """The transform of stored images (uint8, 0 to 255) to network inputs: (window - mean window) * scale.

    scale: factor on the grey levels; 1/255 maps them to [0, 1].
    subtract_mean: subtract the dataset's mean image first.
    crop: (height, width) of the window to take from each image; None for the whole image.
    random_crop: in training, draw the position of the window; otherwise, and in evaluation, it is centred.
    random_flip: in training, mirror every second window, on average, left to right.
    mean_window: position of the window in the mean image: "same" as in the image, or always "top-left", as in the
        ImageNet recipe of ChainerMN whatever it cropped (needed to reproduce published curves).
    """

    scale: float = 1 / 255
    subtract_mean: bool = False
    crop: tuple[int, int] | None = None
    mean_window: str = "same"
    random_crop: bool = False
    random_flip: bool = False
    problem: ClassVar[str | None] = None

    def output_shape(self, image_shape: Shape) -> Shape:
        """Return the shape of a network input for stored images of (channels, height, width)."""
        return (image_shape[0], *self.crop) if self.crop else image_shape


Rates = tuple[tuple[str, float], ...]
"""Constants of an update rule in an epoch, by name."""


@reporting
@dataclass(frozen=True)
class Optimizer:
    """An update rule (a key of update_rules.UPDATE_RULES) and its constants."""

    rule: str
    learning_rate: float
    constants: tuple[tuple[str, float], ...] = ()
    problem: ClassVar[str | None] = None

    def as_dict(self) -> dict[str, Any]:
        """Return rule, learning_rate and each constant by name, for records and adapters."""
        return {"rule": self.rule, "learning_rate": self.learning_rate, **dict(self.constants)}

    def with_rates(self, rates: Rates) -> "Optimizer":
        """Return the optimizer with the constants of an epoch (`schedules.epoch_rates`), as adapters are built."""
        values = {**self.as_dict(), **dict(rates)}
        values.pop("legacy", None)  # it decides the rates, and no update rule has it
        return Optimizer(values.pop("rule"), values.pop("learning_rate"), tuple(values.items()))


DEFAULT_CONSTANTS: Mapping[str, Mapping[str, float]] = {
    "sgd": {"learning_rate": 0.01},
    "momentum_sgd": {"learning_rate": 0.01, "momentum": 0.9},
    "adam": {"learning_rate": 1e-3, "beta_1": 0.9, "beta_2": 0.999, "epsilon": 1e-8},
    "rmsprop": {"learning_rate": 0.01, "rho": 0.99, "epsilon": 1e-8},
    "rmsprop_warmup": {"learning_rate": 0.1, "momentum": 0.9, "rho": 0.99, "epsilon": 1e-8, "legacy": False},
}
"""The update rules that an experiment can choose, with the constants that they have in Chainer and in its ImageNet
examples. learning_rate of rmsprop_warmup is that of 256 samples per step, and legacy keeps the published slope."""


@reporting
@dataclass(frozen=True, eq=False)  # what is known of one is kept by the recipe itself, whose values may have no hash
class Recipe:
    """A recipe.

    architecture: function (input shape, classes) -> Architecture.
    input_shape: shape of one network input.
    initializer: a key of initializers.KERNEL_INITIALIZERS.
    batch_size: samples per step; None for the whole training set as one batch, in its stored order.
    input: transform of stored images; None if the network takes token ids.
    published_parameters: published number of parameters, with `published_classes` classes.
    source: the original that the constants come from.
    vocabulary_size: number of token ids that the network knows; None for images.
    certified_side: height and width of the images for certificates, and the least that runs may have; None if all
        inputs have `input_shape`.
    """

    name: str
    architecture: Callable[[Shape, int], Architecture]
    input_shape: Shape
    initializer: str
    optimizer: Optimizer
    batch_size: int | None
    input: InputTransform | None
    evaluated_splits: tuple[str, ...]
    published_parameters: int
    published_classes: int
    source: str
    vocabulary_size: int | None = None
    certified_side: int | None = None
    problem: ClassVar[str | None] = None

    def network(self, input_shape: Shape, classes: int, settings: Mapping[str, Any]) -> Architecture:
        """Return the network with the settings of an experiment."""
        return self.architecture(input_shape, classes).with_dropout(settings.get("dropout"))

    @property
    def ops(self) -> set[str]:
        """The layer types of its network."""
        return {node.op for node in self.architecture(self.input_shape, self.published_classes).nodes}

    @property
    def dropout_rates(self) -> list[float]:
        """The distinct rates of its Dropout layers."""
        nodes = self.architecture(self.input_shape, self.published_classes).nodes
        return sorted({node.attributes["rate"] for node in nodes if node.op == "Dropout"})

    def misfit(self, sample_shape: Shape, transform: InputTransform | None, vocabulary_size: int = 0) -> str | None:
        """Return why the recipe can't take samples of this shape, as a phrase, or None if it can.

        transform: the recipe's input transform with the experiment's changes (see `merged_input`).
        vocabulary_size: number of token ids of a dataset of texts.
        """
        if len(sample_shape) != len(self.input_shape):
            return f"takes {_kind(self.input_shape)}, but gets {_kind(sample_shape)}"
        if transform is None:
            return self._text_misfit(sample_shape, vocabulary_size)
        if transform.crop and any(window > side for window, side in zip(transform.crop, sample_shape[1:], strict=True)):
            return f"crops {_sides(transform.crop)} out of images of {_sides(sample_shape[1:])}"
        shape = transform.output_shape(sample_shape)
        if not (self.fits_cropped(shape) if self.certified_side else shape == self.input_shape):
            needed = f"{_sides(self.smallest_input)}{' or larger' if self.certified_side else ''}"
            return f"takes inputs of {needed} (channels x height x width), but gets {_sides(shape)}"
        architecture = self.architecture(shape, self.published_classes)
        if architecture.shapes()[architecture.output] != (self.published_classes,):
            by_dense = architecture.nodes[-1].op == "Dense"
            hint = "a Flatten before its last Dense layer" if by_dense else "a smaller or a square crop"
            return f"gives more than one result for each class from inputs of {_sides(shape)} ({hint} gives one)"
        return None

    @property
    def smallest_input(self) -> Shape:
        """The shape of the smallest image that the network takes."""
        return (self.input_shape[0], *2 * (self.certified_side,)) if self.certified_side else self.input_shape

    def _text_misfit(self, sample_shape: Shape, vocabulary_size: int) -> str | None:
        if sample_shape != self.input_shape:
            return f"takes {_kind(self.input_shape)}, but gets {_kind(sample_shape)}"
        assert self.vocabulary_size is not None  # every recipe that takes token ids has it
        if vocabulary_size > self.vocabulary_size:
            return f"knows {self.vocabulary_size} token ids, but gets texts of {vocabulary_size} (vocabulary_size)"
        return None

    def fits_cropped(self, sample_shape: Shape) -> bool:
        """Return whether the recipe can take some crop of samples of this shape."""
        if self.input is None:
            return False
        same_channels = len(sample_shape) == len(self.input_shape) and sample_shape[0] == self.input_shape[0]
        return same_channels and all(a >= b for a, b in zip(sample_shape, self.smallest_input, strict=True))


def recipe_values(recipe: Recipe) -> dict:
    """Return the values of a recipe that affect a run, as plain JSON values. Its source and its checks do not."""
    return {
        "architecture": recipe.architecture.__qualname__,
        "initializer": recipe.initializer,
        "optimizer": recipe.optimizer.as_dict(),
        "batch_size": recipe.batch_size,
        "input": recipe.input and asdict(recipe.input),
        "evaluated_splits": recipe.evaluated_splits,
    }


def _kind(shape: Shape) -> str:
    """Return the kind of samples of a shape, in words."""
    return f"texts of {shape[0]} token ids" if len(shape) == 1 else "images"


def _sides(shape: Shape) -> str:
    return " x ".join(str(side) for side in shape)


def merged_input(of_recipe: InputTransform | None, overrides: Mapping) -> InputTransform | None:
    """Return a recipe's input transform, changed by an experiment's `input` keys; None if it takes token ids."""
    if of_recipe is None:
        return None
    values = {**asdict(of_recipe), **overrides}
    values["crop"] = tuple(values["crop"]) if values["crop"] else None
    return InputTransform(**values)


def is_streamed(transform: InputTransform | None, kind: str) -> bool:
    """Return whether samples reach the network as a Stream and not as arrays in memory.

    kind: kind of the prepared dataset (datasets.catalogue.KINDS).
    """
    if transform is None:
        return False
    return kind == "image_lists" or transform.random_flip or (transform.random_crop and transform.crop is not None)


def merged_constants(constants: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return rule and constants, changed by an experiment's `optimizer` keys. A rule brings its DEFAULT_CONSTANTS.

    constants: those of a recipe (`Optimizer.as_dict`).
    """
    rule = overrides.get("rule")
    base = {"rule": rule, **DEFAULT_CONSTANTS[rule]} if rule else constants
    return {**base, **{key: float(value) if type(value) is int else value for key, value in overrides.items()}}


def merged_optimizer(recipe: Recipe, settings: Mapping[str, Any]) -> Optimizer:
    """Return the recipe's optimizer, changed by the key `optimizer` of an experiment's settings."""
    values = merged_constants(recipe.optimizer.as_dict(), settings.get("optimizer", {}))
    return Optimizer(values.pop("rule"), values.pop("learning_rate"), tuple(values.items()))


def effective_settings(recipe: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the settings of an experiment mean with a recipe, by dotted key: "optimizer.learning_rate".

    recipe: the recipe's values, as in a record (`recipe_values`).
    """
    of_recipe = recipe["input"] and InputTransform(**recipe["input"])
    transform = merged_input(of_recipe, settings["input"])
    meant = {
        **settings,
        "optimizer": merged_constants(recipe["optimizer"], settings.get("optimizer", {})),
        "batch_size": configured_batch_size(recipe["batch_size"], settings["batch_size"]) or "full",
        "input": asdict(transform) if transform else None,
    }
    return {
        dotted: value
        for key, part in meant.items()
        for dotted, value in (
            {f"{key}.{name}": value for name, value in part.items()} if isinstance(part, Mapping) else {key: part}
        ).items()
    }


def differing_settings(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Return the dotted keys in which two `effective_settings` differ, but for constants that only one rule has."""
    keys = dict.fromkeys([*first, *second])
    differing = [key for key in keys if first.get(key) != second.get(key)]
    if "optimizer.rule" not in differing:
        return differing
    return [key for key in differing if not key.startswith("optimizer.") or (key in first and key in second)]


def seen_shape(transform: InputTransform | None, sample_shape: Shape) -> Shape:
    """Return the shape of a network input for stored samples; without a transform (token ids) it is the same."""
    return transform.output_shape(tuple(sample_shape)) if transform else tuple(sample_shape)


def configured_batch_size(of_recipe: int | None, setting: str | int) -> int | None:
    """Return the samples per step that a config asks for; None for the whole training set.

    setting: `batch_size` of a config: "recipe", "full" or a number.
    """
    sizes = {"recipe": of_recipe, "full": None}
    return sizes[setting] if setting in sizes else int(setting)


def resolved_batch_size(of_recipe: int | None, setting: str | int, samples: int) -> int:
    """Return the samples of a step of a training on so many samples. The last step of an epoch may have fewer."""
    return min(configured_batch_size(of_recipe, setting) or samples, samples)
