"""Honest campaigns of every kind, small ones: nothing in them may be refused."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mirrors import reviews_on_mirror

PLAIN, DROPOUT, FULL, TEXTS = "mnist-mlp-chainer", "mnist-mlp-keras", "mnist-mlp-flux", "imdb-cnn"

BUSY = {"busy": True}
"""A process beside the campaign that takes a CPU."""

BOTH = {"loops": ["stock", "tuned"]}
TWO = {"workers": [2]}
FLIPPED = {"input": {"random_flip": True}}
"""A stream: what is drawn for an image in an epoch can't be held in memory."""

WARM_UP = {"optimizer": {"rule": "rmsprop_warmup", "learning_rate": 0.1}}
MILESTONES = {"optimizer": {"rule": "momentum_sgd"}, "learning_rate_schedule": {"milestones": 2}}
VARIANTS = {
    "rates": {"low": {"optimizer": {"learning_rate": 0.0005}}, "high": {"optimizer": {"learning_rate": 0.001}}},
    "dropout": {"less": {"dropout": 0.1}, "more": {"dropout": 0.4}},
    "sizes": {"small": {"batch_size": 64}, "large": {"batch_size": 128}},
    "rules": {"momentum": {"optimizer": {"rule": "momentum_sgd"}}, "adam": {"optimizer": {"rule": "adam"}}},
}

PHOTOGRAPHS = Path(__file__).resolve().parents[3] / "shared" / "data" / "imagenette2-224-subset"
"""400 photographs in ten classes, where they are beside the repository."""


@dataclass
class Campaign:
    """A campaign of one experiment. config: keys beside the experiments. busy: whether something else takes a CPU."""

    experiment: dict
    config: dict = field(default_factory=dict)
    busy: bool = False
    cores: int = 2


def of(recipe: str, *frameworks: str, epochs: int = 8, repeats: int = 4, **keys: Any) -> Campaign:
    """A campaign of some frameworks on the digits. keys: fields of Campaign, and other keys of the experiment."""
    own = {name: keys.pop(name) for name in ("config", "busy", "cores") if name in keys}
    of_all = {"recipes": [recipe], "datasets": ["digits"], "frameworks": list(frameworks), "devices": ["cpu"]}
    return Campaign(of_all | {"epochs": [epochs], "repeats": repeats} | keys, **own)


def of_texts(folder: Path, *frameworks: str) -> Campaign:
    """The network for texts on a few reviews."""
    texts = reviews_on_mirror(
        folder, "The film was {0} the {0} film<br />", 40, sequence_length=400, vocabulary_size=100
    )
    config = {"mirror": str(folder / "mirror"), "offline": True, "datasets": {"texts": texts}}
    return of(TEXTS, *frameworks, datasets=["texts"], config=config, epochs=3, repeats=2)


def of_photographs(folder: Path, recipe: str, *frameworks: str, side: int, **keys: Any) -> Campaign:
    """A network for photographs on forty of them, from a stream."""
    classes = sorted((PHOTOGRAPHS / "train").iterdir())
    forty = [(path, label) for label, photos in enumerate(classes) for path in sorted(photos.iterdir())[:4]]
    lines = [f"{path.relative_to(PHOTOGRAPHS)} {label}\n" for path, label in forty]
    (folder / "forty.txt").write_text("".join(lines))
    dataset = {"title": "Forty", "format": "image_list", "folder": str(PHOTOGRAPHS)}
    config = {"datasets": {"forty": dataset | {"lists": dict.fromkeys(("train", "test"), str(folder / "forty.txt"))}}}
    small = {"datasets": ["forty"], "batch_size": 10, "input": {"crop": [side, side]}, "config": config}
    return of(recipe, *frameworks, epochs=3, repeats=2, **small, **keys)


HONEST = {
    # two frameworks, without dropout
    "chainer-flax": lambda folder: of(PLAIN, "chainer", "flax"),
    "chainer-torch": lambda folder: of(PLAIN, "chainer", "torch", seed=2),
    "flax-torch": lambda folder: of(PLAIN, "flax", "torch", seed=3),
    "keras-jax-tensorflow": lambda folder: of(PLAIN, "keras-jax", "keras-tensorflow"),
    "keras-jax-torch": lambda folder: of(PLAIN, "keras-jax", "keras-torch", epochs=4),
    "tensorflow-torch": lambda folder: of(PLAIN, "keras-tensorflow", "torch", repeats=6, seed=4),
    "chainer-flax-busy": lambda folder: of(PLAIN, "chainer", "flax", **BUSY),
    "torch-keras-jax-busy": lambda folder: of(PLAIN, "torch", "keras-jax", **BUSY),
    "long": lambda folder: of(PLAIN, "chainer", "torch", epochs=30, repeats=2),
    "one-repeat": lambda folder: of(PLAIN, "chainer", "flax", repeats=1),
    "one-epoch": lambda folder: of(PLAIN, "torch", "flax", epochs=1, repeats=4),
    # with dropout
    "dropout-chainer-flax": lambda folder: of(DROPOUT, "chainer", "flax"),
    "dropout-chainer-torch": lambda folder: of(DROPOUT, "chainer", "torch", seed=5),
    "dropout-flax-torch": lambda folder: of(DROPOUT, "flax", "torch", seed=6),
    "dropout-tensorflow-torch": lambda folder: of(DROPOUT, "keras-tensorflow", "torch"),
    "dropout-keras-jax-torch": lambda folder: of(DROPOUT, "keras-jax", "keras-torch", epochs=4),
    "dropout-flax-busy": lambda folder: of(DROPOUT, "flax", "keras-jax", **BUSY),
    "dropout-torch-busy": lambda folder: of(DROPOUT, "torch", "chainer", repeats=6, **BUSY),
    "dropout-long": lambda folder: of(DROPOUT, "chainer", "flax", epochs=30, repeats=2),
    "dropout-half": lambda folder: of(DROPOUT, "torch", "flax", dropout=0.5),
    # both loops
    "loops-torch": lambda folder: of(DROPOUT, "torch", **BOTH),
    "loops-flax": lambda folder: of(DROPOUT, "flax", seed=7, **BOTH),
    "loops-chainer": lambda folder: of(PLAIN, "chainer", **BOTH),
    "loops-tensorflow": lambda folder: of(PLAIN, "keras-tensorflow", **BOTH),
    "loops-keras-jax": lambda folder: of(DROPOUT, "keras-jax", **BOTH, **BUSY),
    # several workers
    "workers-torch-flax": lambda folder: of(PLAIN, "torch", "flax", **TWO),
    "workers-chainer-keras": lambda folder: of(PLAIN, "chainer", "keras-jax", repeats=2, **TWO),
    "workers-dropout": lambda folder: of(DROPOUT, "torch", "chainer", **TWO),
    "workers-one-and-two": lambda folder: of(DROPOUT, "flax", repeats=3, workers=[1, 2]),
    "workers-busy": lambda folder: of(PLAIN, "torch", repeats=3, workers=[1, 2], **BUSY),
    # full batches, schedules, streams, texts, variants
    "full-batches": lambda folder: of(FULL, "chainer", "torch", epochs=20),
    "warm-up": lambda folder: of(PLAIN, "torch", "flax", **WARM_UP),
    "milestones": lambda folder: of(PLAIN, "chainer", "keras-jax", **MILESTONES),
    "stream": lambda folder: of(PLAIN, "torch", "flax", **FLIPPED),
    "stream-dropout-busy": lambda folder: of(DROPOUT, "chainer", "torch", **FLIPPED, **BUSY),
    "texts": lambda folder: of_texts(folder, "flax", "torch"),
    "texts-chainer": lambda folder: of_texts(folder, "chainer", "keras-jax"),
    "variants-of-rates": lambda folder: of(PLAIN, "chainer", "flax", repeats=3, epochs=3, variants=VARIANTS["rates"]),
    "variants-of-dropout": lambda folder: of(DROPOUT, "torch", repeats=3, epochs=3, variants=VARIANTS["dropout"]),
    "variants-of-sizes": lambda folder: of(PLAIN, "torch", repeats=3, epochs=3, variants=VARIANTS["sizes"]),
    "variants-of-rules": lambda folder: of(PLAIN, "flax", repeats=3, epochs=3, variants=VARIANTS["rules"]),
    # photographs, which take minutes and not half a minute
    "resnet50": lambda folder: of_photographs(folder, "imagenet-resnet50", "torch", "flax", side=64),
    "nin": lambda folder: of_photographs(folder, "imagenet-nin", "torch", "flax", side=99, **BOTH),
}
"""By name, a function of the folder of the campaign."""
