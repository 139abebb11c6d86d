"""A recipe: architecture, input transform, optimizer and batch size."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Shape

DTYPE = "float32"
"""The dtype of runs."""


@dataclass(frozen=True)
class InputTransform:
    """The transform of stored images (uint8, 0 to 255) to network inputs: (window - mean window) * scale.

    scale: factor on the grey levels; 1/255 maps them to [0, 1].
    subtract_mean: subtract the dataset's mean image first.
    crop: (height, width) of the centred window to take from each image; None for the whole image.
    mean_window: position of the window in the mean image: "same" as in the image, or always "top-left", as in the
        ImageNet recipe of ChainerMN whatever it cropped (needed to reproduce published curves).
    """

    scale: float = 1 / 255
    subtract_mean: bool = False
    crop: tuple[int, int] | None = None
    mean_window: str = "same"

    def output_shape(self, image_shape: Shape) -> Shape:
        """Return the shape of a network input for stored images of (channels, height, width)."""
        return (image_shape[0], *self.crop) if self.crop else image_shape


@dataclass(frozen=True)
class Optimizer:
    """An update rule (a key of update_rules.UPDATE_RULES) and its constants."""

    rule: str
    learning_rate: float
    constants: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return rule, learning_rate and each constant by name, for records and adapters."""
        return {"rule": self.rule, "learning_rate": self.learning_rate, **dict(self.constants)}


@dataclass(frozen=True)
class Recipe:
    """A recipe.

    name: its name in configs.
    architecture: function (input shape, classes) -> Architecture.
    input_shape: shape of one network input.
    initializer: a key of initial_weights.KERNEL_INITIALIZERS.
    optimizer: update rule and constants.
    batch_size: samples per step; None for the whole training set as one batch, in its stored order.
    input: transform of stored images; None if the network takes token ids.
    evaluated_splits: the splits that runs evaluate.
    published_parameters: published number of parameters, with `published_classes` classes.
    source: the original that the constants come from.
    vocabulary_size: number of token ids that the network knows; None for images.
    certified_side: height and width of the images for certificates; None for those of the run.
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
        if shape != self.input_shape:
            return f"takes inputs of {_sides(self.input_shape)} (channels x height x width), but gets {_sides(shape)}"
        return None

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
        return same_channels and all(a >= b for a, b in zip(sample_shape, self.input_shape, strict=True))


def _kind(shape: Shape) -> str:
    """Return the kind of samples of a shape, in words."""
    return f"texts of {shape[0]} token ids" if len(shape) == 1 else "images"


def _sides(shape: Shape) -> str:
    return " x ".join(str(side) for side in shape)


def merged_input(recipe: Recipe, overrides: dict) -> InputTransform | None:
    """Return the recipe's input transform, changed by an experiment's `input` keys; None if it takes token ids."""
    if recipe.input is None:
        return None
    values = {**asdict(recipe.input), **overrides}
    values["crop"] = tuple(values["crop"]) if values["crop"] else None
    return InputTransform(**values)


def seen_shape(transform: InputTransform | None, sample_shape: Shape) -> Shape:
    """Return the shape of a network input for stored samples; without a transform (token ids) it is the same."""
    return transform.output_shape(tuple(sample_shape)) if transform else tuple(sample_shape)


def resolve_batch_size(recipe: Recipe, setting: str) -> int | None:
    """Return the samples per step; None for the whole training set.

    setting: `batch_size` of a config: "recipe", "full" or a number.
    """
    sizes = {"recipe": recipe.batch_size, "full": None}
    return sizes[setting] if setting in sizes else int(setting)
