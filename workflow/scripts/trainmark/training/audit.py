"""Replays the audited epoch of a run, from the state that the run kept, and compares it with what the run recorded.

The reference in numpy replays it where it has all layers of the network, and another trainer otherwise. More replays
tell how much two correct trainings differ:

- Without dropout, a second time from weights that are slightly changed, if the first one differs: training amplifies
  rounding. It ends where it has come so far from the first that everything would be allowed: from there on the run is
  compared as with dropout.
- With dropout, several times with other masks: the run must not differ more from them than they do from each other.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from trainmark.frameworks.adapter import Adapter, ObservedAdapter, evaluation_batch_size
from trainmark.loading.splits import Split
from trainmark.networks.layers import training_flops
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights, perturb
from trainmark.recipes.outputs import cross_entropy_and_accuracy, relative_differences
from trainmark.recipes.reference import Reference, has_layers
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.recipes.stream import Batch, Stream
from trainmark.records.evaluation import LEAST_LOSS_ALLOWED, LOSS_ALLOWED
from trainmark.records.record import encode_loss
from trainmark.records.result import part_steps
from trainmark.records.step_losses import step_losses
from trainmark.trainer import Trainer
from trainmark.training.audited_epoch import KeptEpoch, read_kept, slot_sizes

NUMPY = "numpy"
"""How an entry names the reference."""

MAX_REFERENCE_FLOPS = 1e12
"""Epochs of more operations are not replayed in numpy: in float64, two CPUs need about 20 seconds for as many."""

REFERENCE_REPLAYS = 4
"""Number of replays in numpy with dropout. Another trainer, whose networks take longer, replays an epoch once."""

COPY_CHANGE, COPY_SEED = 1e-5, 5
"""Relative change of each weight from which the second replay without dropout starts, and the seed of its signs."""

ALLOWED_RATIO = 10.0
"""Without dropout, a run may differ from a replay by this many times the difference of the two replays."""

LOOKAHEAD_STEPS = 4
"""The limit of a step takes the differences of so many steps after it into account: two may be equal by chance."""

COPY_STEPS = 4
"""Number of steps of the second replay after which it is asked whether it has come too far from the first one."""

LEAST_ALLOWED = 5e-3
"""Relative difference of losses and weight changes that is always allowed: rounding may push a hidden unit across the
kink of ReLU."""

STANDARD_ERRORS, LEAST_ALLOWED_WITH_MASKS = 5.0, 0.03
"""With dropout, mean losses may differ by so many standard errors, and always by so much of themselves. In 360 draws of
the masks of mnist-mlp-keras on the digits, an epoch's mean was at most 2.8 standard errors from that of one or four."""

SIZE_ALLOWED = 0.15
"""Relative difference of the size of a layer's weight change from four replays. In those draws .08 at most; with half
the learning rate .29 to .47, with every second update .16 to .41."""

SIZE_ALLOWED_OF_MIDDLE = 0.25
"""The same from one replay, for the layer in the middle by this difference: .10 at most in 30 pairs of masks of
imagenet-nin on 400 photographs (.17 in the furthest layer), .02 in ResNet-50, where single layers differed by .77."""

STATE_ALLOWED_TIMES = 3.0
"""So many times may an optimizer's arrays be as large after the epoch as after the replays, or as small. In the
networks of tests/unit/training/test_audit.py they differ by 2 % with other masks."""

PARTS = 5
"""The parts of an epoch whose means tell how much the losses of two trainings differ by chance."""

DISTANCE_RATIO = 1.2
"""With dropout, the weight change of a run may be this many times as far from those of the replays as they are from
each other. In those draws it was at most 1.09 times as far; with one mask for all samples of a batch 1.12 to 1.42."""

SAME_LOSS, CLEARLY_OTHER = 2e-6, 1e-2
"""A first loss that differs no more than this from that of the batch without dropout shows that there was none, if
other masks change it by more than the second."""


class Replaying(Protocol):
    """What replays an epoch: an adapter, or the reference."""

    def load(self, *, split: str, inputs: Any, labels: np.ndarray) -> None:
        """See `Adapter.load`."""

    def set_weights(self, weights: Weights) -> None:
        """See `Adapter.set_weights`."""

    def set_slots(self, slots: Weights, updates: int) -> None:
        """See `ObservedAdapter.set_slots`."""

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        """See `Adapter.train_epoch`."""

    def slots(self) -> Weights:
        """See `ObservedAdapter.slots`."""

    def weights(self) -> Weights:
        """See `Adapter.weights`."""

    def predict(self, split: str) -> np.ndarray:
        """See `Adapter.predict`."""


@dataclass(frozen=True)
class Difference:
    """How much a run differs from the replays in one quantity. Losses have a step, weights a layer.

    what: a key of SHOWN in tables/run_checks.py.
    """

    what: str
    difference: float
    allowed: float
    step: int | None = None
    layer: str | None = None

    @property
    def excess(self) -> float:
        """The difference divided by the allowed one."""
        return self.difference / self.allowed


@dataclass(frozen=True)
class Epoch:
    """What an epoch did.

    losses: of each step, float64, (steps,).
    change: of each array.
    slot_sizes: those of the optimizer's arrays after it; empty where they are not compared.
    """

    losses: np.ndarray
    change: Weights
    slot_sizes: Mapping[str, float]


def audit(
    adapter: Adapter,
    trainer: Trainer,
    resolved: ResolvedTraining,
    record_file: Path,
    record: Mapping,
    splits: Mapping[str, Split],
) -> dict | None:
    """Replay the audited epoch of a run; return the audit as in evaluation.schema.json.

    adapter: built for this training, with the test split loaded, and that for training unless `has_reference`.
    trainer: which one it is.

    None if the run kept no epoch, or if neither numpy nor the adapter can replay it. Raises RecordError where the epoch
    can't be read.
    """
    if record["weights"]["audit"] is None:
        return None
    kept = read_kept(record_file, record, resolved.architecture, resolved.optimizer.rule)
    audited = AuditedRun(resolved, record, kept, splits)
    if has_reference(resolved):
        reference = Reference(resolved.architecture, kept.before, resolved.first_optimizer)
        reference.load(split="train", inputs=np.asarray(splits["train"][0]), labels=splits["train"][1])
        by, found = NUMPY, audited.differences(reference, REFERENCE_REPLAYS)
    elif isinstance(adapter, ObservedAdapter):
        by, found = str(trainer), audited.differences(adapter, 1)
    else:
        return None
    differences = [asdict(one) | {"difference": encode_loss(one.difference)} for one in found]
    return {"epoch": kept.epoch, "by": by, "differences": differences}


def has_reference(resolved: ResolvedTraining) -> bool:
    """Whether numpy has all layers of a network, and replays an epoch of it in little time."""
    architecture = resolved.architecture
    known = has_layers(architecture) and not resolved.is_streamed
    return known and training_flops(architecture) * resolved.samples <= MAX_REFERENCE_FLOPS


class AuditedRun:
    """An audited epoch of a run, and what the run recorded of it.

    run: what the run did in the epoch.
    layers: the layers with trained weights or running statistics.
    """

    def __init__(
        self, resolved: ResolvedTraining, record: Mapping, kept: KeptEpoch, splits: Mapping[str, Split]
    ) -> None:
        self._architecture, self._kept, self._splits = resolved.architecture, kept, splits
        self.layers = dict.fromkeys(parameter.layer for parameter in self._architecture.arrays())
        feed = resolved.feed(record["run"]["repeat"], kept.epoch)
        self._parts = feed.parts(part_steps(record["settings"], resolved.is_streamed))
        before_optimizer = resolved.epochs_before_optimizer(kept.epoch, record["run"]["epochs"])
        self._updates = (kept.epoch - 1 - before_optimizer) * resolved.epoch_steps
        losses = np.array(step_losses(record["curves"][kept.epoch - 1]))
        self.run = Epoch(losses, _change(kept.before, kept.after), kept.slot_sizes)
        evaluations = [record["initial_evaluation"], *(entry["evaluations"]["test"] for entry in record["curves"])]
        before, after = (one and float(one["loss"]) for one in evaluations[kept.epoch - 1 : kept.epoch + 1])
        self._test_losses = [("test loss before", kept.before, before), ("test loss after", kept.after, after)]
        if kept.epoch == record["run"]["epochs"] and not has_reference(resolved):
            del self._test_losses[1]  # the same trainer has just evaluated these weights (cross_evaluation)

    def differences(self, one: Replaying, count: int) -> list[Difference]:
        """Replay the epoch, `count` times with dropout, and return the differences in the order of the computation.

        one: built for this training, with the training split loaded. It is left with the test split.
        """
        if self._architecture.has_dropout:
            replays = [self.replay(one, self._kept.before, seeds) for seeds in range(1, count + 1)]
            found = [self._masks(one, [epoch.losses[0] for epoch in replays]), _mean_losses(self.run, replays)]
            found.append(_sizes(self.run, replays, self.layers))
            if count > 1:
                found.append(_distances(self.run, replays, self.layers))
        else:
            own = self.replay(one, self._kept.before)
            found = [_losses(self.run, own, own), _changes(self.run, own, own, self.layers)]
            if any(difference.excess > 1 for difference in found):
                found = self._with_copy(own, self._copy(one, own))
            replays = [own]
        found += _states(self.run, replays)
        one.load(split="test", inputs=self._splits["test"][0], labels=self._splits["test"][1])
        for what, weights, recorded in self._test_losses:
            if recorded is not None:
                difference = abs(self._loss(one, weights, self._splits["test"][1]) - recorded)
                size = max(abs(recorded), LEAST_LOSS_ALLOWED / LOSS_ALLOWED)
                found.append(Difference(what, difference / size, LOSS_ALLOWED))
        return found

    def _with_copy(self, own: Epoch, copy: Epoch) -> list[Difference]:
        losses = _losses(self.run, own, copy)
        if len(copy.losses) == len(own.losses):
            return [losses, _changes(self.run, own, copy, self.layers)]
        return [losses, _mean_losses(self.run, [own]), _sizes(self.run, [own], self.layers)]

    def _copy(self, one: Replaying, own: Epoch) -> Epoch:
        """Replay the epoch from slightly changed weights, until the losses have come too far from the others."""
        weights = perturb(self._kept.before, COPY_CHANGE, COPY_SEED)
        self._begin(one, weights)
        losses = np.zeros(0)
        for part in chain.from_iterable(part.parts(COPY_STEPS) for part in self._parts):
            losses = np.concatenate([losses, one.train_epoch(part)])
            apart = np.abs(losses - own.losses[: len(losses)]).sum()
            if ALLOWED_RATIO * apart > np.abs(losses).sum():
                break
        return Epoch(losses, _change(weights, one.weights()), {})

    def replay(self, one: Replaying, weights: Weights, seeds: int = 0) -> Epoch:
        """Train the epoch from these weights. seeds: changes those of dropout: the masks are not to be the run's."""
        self._begin(one, weights)
        losses = [one.train_epoch(replace(part, dropout_seed=part.dropout_seed ^ seeds)) for part in self._parts]
        return Epoch(np.concatenate(losses), _change(weights, one.weights()), slot_sizes(one.slots()))

    def _begin(self, one: Replaying, weights: Weights) -> None:
        one.set_weights(weights)
        one.set_slots(self._kept.slots, self._updates)

    def _masks(self, one: Replaying, of_replays: Sequence[float]) -> Difference:
        """Return whether the first loss is, but for rounding, that of its batch without dropout: 1 if it is."""
        inputs, labels = self._splits["train"]
        batches = inputs.training_batches if isinstance(inputs, Stream) else partial(_batches, inputs, labels)
        images, labels = next(iter(batches(self._parts[0])))
        # As many as an evaluation takes at once: what was compiled for those is not compiled again.
        count = max(len(labels), min(evaluation_batch_size(self._architecture), len(self._splits["test"][1])))
        repeated = np.resize(images, (count, *images.shape[1:]))
        one.load(split="test", inputs=repeated, labels=np.resize(labels, count))
        loss = self._loss(one, self._kept.before, labels)
        can_be_told = all(abs(other / loss - 1) > CLEARLY_OTHER for other in of_replays)
        is_same = abs(self.run.losses[0] / loss - 1) < SAME_LOSS
        return Difference("dropout", float(can_be_told and is_same), 0.5, step=1)

    def _loss(self, one: Replaying, weights: Weights, labels: np.ndarray) -> float:
        one.set_weights(weights)
        return cross_entropy_and_accuracy(one.predict("test")[: len(labels)], labels)[0]


def _batches(inputs: np.ndarray, labels: np.ndarray, feed: EpochFeed) -> Iterator[Batch]:
    return feed.batches(inputs, labels)


def _change(before: Weights, after: Weights) -> Weights:
    return {name: after[name].astype(np.float64) - array for name, array in before.items()}


def _states(run: Epoch, replays: Sequence[Epoch]) -> Iterator[Difference]:
    """Yield how many times the optimizer's arrays are as large as after the replays, or as small: the worst slot."""
    times = []
    for slot, size in run.slot_sizes.items():
        smaller, larger = sorted((size, float(np.median([epoch.slot_sizes[slot] for epoch in replays]))))
        times.append(larger / smaller if smaller else np.inf if larger else 1.0)
    if times:
        yield Difference("optimizer", max(times), STATE_ALLOWED_TIMES)


# --- without dropout ----------------------------------------------------------------------------------------------


def _losses(run: Epoch, own: Epoch, copy: Epoch) -> Difference:
    """Return the difference in the first step that exceeds its limit, otherwise in the one nearest to its limit."""
    if len(run.losses) != len(own.losses):
        return Difference("losses", np.inf, LEAST_ALLOWED, step=min(len(run.losses), len(own.losses)) + 1)
    steps = len(copy.losses)
    sensitive = np.maximum.accumulate(np.abs(relative_differences(own.losses[:steps], copy.losses)))
    ahead = np.minimum(np.arange(steps) + LOOKAHEAD_STEPS, steps - 1)
    allowed = np.maximum(LEAST_ALLOWED, ALLOWED_RATIO * sensitive[ahead])
    differences = np.abs(relative_differences(run.losses[:steps], own.losses[:steps]))
    excess = differences / allowed
    step = int(np.argmax(excess > 1)) if (excess > 1).any() else int(np.argmax(excess))
    return Difference("losses", float(differences[step]), float(allowed[step]), step=step + 1)


def _changes(run: Epoch, own: Epoch, copy: Epoch, layers: Iterable[str]) -> Difference:
    """Return the difference of the layer that is furthest from its limit."""
    found = []
    for layer in layers:
        size = max(_norm(_of_layers(epoch.change, [layer])) for epoch in (run, own)) or 1.0
        allowed = max(LEAST_ALLOWED, ALLOWED_RATIO * _distance(own, copy, [layer]) / size)
        found.append(Difference("weights", _distance(run, own, [layer]) / size, allowed, layer=layer))
    return max(found, key=lambda one: one.excess)


def _of_layers(arrays: Weights, layers: Collection[str]) -> Weights:
    return {name: array for name, array in arrays.items() if name.rpartition(".")[0] in layers}


def _norm(arrays: Weights) -> float:
    return float(np.sqrt(sum(np.vdot(array, array) for array in arrays.values())))


def _distance(first: Epoch, second: Epoch, layers: Collection[str]) -> float:
    """Return the joint distance of the changes of these layers."""
    own = _of_layers(first.change, layers)
    return _norm({name: array - second.change[name] for name, array in own.items()})


# --- with dropout, or where rounding is amplified ---------------------------------------------------------------------


def _mean_losses(run: Epoch, replays: Sequence[Epoch]) -> Difference:
    """Return the difference of the mean losses. They vary as those of the replays do, and of parts of the epoch."""
    of_replays = np.array([epoch.losses for epoch in replays])
    if of_replays.shape[1:] != run.losses.shape:
        steps = min(len(run.losses), of_replays.shape[1]) + 1
        return Difference("losses", np.inf, LEAST_ALLOWED_WITH_MASKS, step=steps)
    differences = run.losses / of_replays.mean(axis=0) - 1
    parts = [part.mean() for part in np.array_split(differences, min(PARTS, len(differences)))]
    errors = [np.std(values) / np.sqrt(max(len(values) - 1, 1)) for values in (differences, parts)]
    if len(replays) > 1:
        means = of_replays.mean(axis=1) / of_replays.mean()
        errors.append(means.std(ddof=1) * np.sqrt(1 + 1 / len(replays)))
    difference = abs(run.losses.mean() / of_replays.mean() - 1)
    return Difference(
        "mean loss", float(difference), float(max(LEAST_ALLOWED_WITH_MASKS, STANDARD_ERRORS * max(errors)))
    )


def size_differences(run: Epoch, replays: Sequence[Epoch], layers: Iterable[str]) -> dict[str, float]:
    """Return by layer how much the size of its weight change differs from the median of the replays."""
    differences = {}
    for layer in layers:
        size, *sizes = (_norm(_of_layers(epoch.change, [layer])) for epoch in (run, *replays))
        differences[layer] = float(size / np.median(sizes) - 1) if np.median(sizes) else float(size > 0)
    return differences


def _sizes(run: Epoch, replays: Sequence[Epoch], layers: Iterable[str]) -> Difference:
    """Return the difference of the size of a layer's weight change, of the layer in which it is largest.

    One replay does not tell how much a layer varies: then it is that of the layer in the middle.
    """
    differences = size_differences(run, replays, layers)
    if len(replays) > 1:
        chosen, allowed = max(differences, key=lambda layer: abs(differences[layer])), SIZE_ALLOWED
    else:
        in_order = sorted(differences, key=differences.__getitem__)
        chosen, allowed = in_order[len(in_order) // 2], SIZE_ALLOWED_OF_MIDDLE
    return Difference("size", abs(differences[chosen]), allowed, layer=chosen)


def _distances(run: Epoch, replays: Sequence[Epoch], layers: Iterable[str]) -> Difference:
    """Return the distance of the run's weight change from those of the replays; the layer is the furthest one."""

    def excess(*of: str) -> float:
        among = np.median([_distance(*pair, of) for pair in combinations(replays, 2)])
        return float(np.median([_distance(run, epoch, of) for epoch in replays]) / among) if among else 0.0

    furthest = max(layers, key=excess)
    return Difference("weights", excess(*layers), DISTANCE_RATIO, layer=furthest)
