"""What a recipe is: architecture + input transform + optimizer + batch size."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Shape

DTYPE = "float32"
"""What runs are trained in."""


@dataclass(frozen=True)
class InputTransform:
    """How a stored image (uint8, 0 to 255) becomes what the network sees: (window - mean window) * scale.

    scale: factor on the grey levels; 1/255 brings them to [0, 1].
    subtract_mean: whether the dataset's mean image is subtracted first.
    crop: (height, width) of the centred window that is taken from each image, or None for the whole image.
    mean_window: where the window of the mean image lies: "same" as the image's, or "top-left" always, which is
        what the ImageNet recipe of ChainerMN did whatever it cropped (kept to repeat published curves).
    """

    scale: float = 1 / 255
    subtract_mean: bool = False
    crop: tuple[int, int] | None = None
    mean_window: str = "same"

    def output_shape(self, image_shape: Shape) -> Shape:
        """Shape of what the network sees, for stored images of (channels, height, width)."""
        return (image_shape[0], *self.crop) if self.crop else image_shape


@dataclass(frozen=True)
class Optimizer:
    """An update rule (a key of update_rules.UPDATE_RULES) and its constants."""

    rule: str
    learning_rate: float
    constants: tuple[tuple[str, float], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Flat form for records and adapters: rule, learning_rate and each constant by name."""
        return {"rule": self.rule, "learning_rate": self.learning_rate, **dict(self.constants)}


@dataclass(frozen=True)
class Recipe:
    """What is trained.

    batch_size: samples a step; None means the whole training set as one batch, in its stored order. input: how stored
    images become what the network sees; None where it sees token ids, as they are stored. published_parameters: at
    published_classes classes. vocabulary_size: how many token ids the network knows. certified_side: height and width
    of the images on which `certify` replays the training; None for those of the run.
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
        """Why samples of this shape can't be fed to this recipe, as a phrase, or None where they can.

        transform: the recipe's with an experiment's keys over it (`merged_input`). vocabulary_size: how many token ids
        a dataset of texts has.
        """
        if len(sample_shape) != len(self.input_shape):
            return f"takes {_kind(self.input_shape)}, and gets {_kind(sample_shape)}"
        if transform is None:
            return self._text_misfit(sample_shape, vocabulary_size)
        if transform.crop and any(window > side for window, side in zip(transform.crop, sample_shape[1:], strict=True)):
            return f"crops {_sides(transform.crop)} out of images of {_sides(sample_shape[1:])}"
        shape = transform.output_shape(sample_shape)
        if shape != self.input_shape:
            return f"takes inputs of {_sides(self.input_shape)} (channels x height x width), and gets {_sides(shape)}"
        return None

    def _text_misfit(self, sample_shape: Shape, vocabulary_size: int) -> str | None:
        if sample_shape != self.input_shape:
            return f"takes {_kind(self.input_shape)}, and gets {_kind(sample_shape)}"
        assert self.vocabulary_size is not None  # of every recipe that takes token ids
        if vocabulary_size > self.vocabulary_size:
            return f"knows {self.vocabulary_size} token ids, and gets texts of {vocabulary_size} (vocabulary_size)"
        return None

    def fits_cropped(self, sample_shape: Shape) -> bool:
        """Whether some crop of such samples can be fed to this recipe."""
        if self.input is None:
            return False
        same_channels = len(sample_shape) == len(self.input_shape) and sample_shape[0] == self.input_shape[0]
        return same_channels and all(a >= b for a, b in zip(sample_shape, self.input_shape, strict=True))


def _kind(shape: Shape) -> str:
    """Samples of a shape, in words: of token ids, or images of whatever size."""
    return f"texts of {shape[0]} token ids" if len(shape) == 1 else "images"


def _sides(shape: Shape) -> str:
    return " x ".join(str(side) for side in shape)


def merged_input(recipe: Recipe, overrides: dict) -> InputTransform | None:
    """The recipe's input transform with an experiment's `input` keys put over it; None where it takes token ids."""
    if recipe.input is None:
        return None
    values = {**asdict(recipe.input), **overrides}
    values["crop"] = tuple(values["crop"]) if values["crop"] else None
    return InputTransform(**values)


def seen_shape(transform: InputTransform | None, sample_shape: Shape) -> Shape:
    """Shape of what the network sees of stored samples: token ids, which have no transform, as they are."""
    return transform.output_shape(tuple(sample_shape)) if transform else tuple(sample_shape)


def resolve_batch_size(recipe: Recipe, asked: str) -> int | None:
    """Samples a step, None for the whole training set; asked: a config's batch_size: "recipe", "full" or a number."""
    sizes = {"recipe": recipe.batch_size, "full": None}
    return sizes[asked] if asked in sizes else int(asked)
