"""The audit, of trainings in numpy: what it refuses, and in which quantity; and an epoch that is kept and read again.

`pytest -s` prints how near each quantity came to its limit.
"""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fake_trainer import ARCHITECTURE, MOMENTUM, FakeAdapter
from harness import settings

from trainmark.errors import RecordError
from trainmark.files.checksums import sha256_of
from trainmark.networks.graph import chain
from trainmark.plan.audits import audited_epochs
from trainmark.plan.plan_file import write_plan
from trainmark.plan.run import Run
from trainmark.recipes.catalogue import RECIPES
from trainmark.recipes.initial_weights import draw_initial_weights
from trainmark.recipes.outputs import cross_entropy_and_accuracy
from trainmark.recipes.reference import Reference
from trainmark.recipes.resolved import ResolvedTraining
from trainmark.records.step_losses import encode_step_losses
from trainmark.trainer import Trainer
from trainmark.training import audited_epoch
from trainmark.training.audit import AuditedRun, has_reference
from trainmark.training.audited_epoch import AuditedEpoch, KeptEpoch, read_kept, slot_sizes

MANIFEST = {"samples": {"train": 1500, "test": 200}, "sample_shape": [1, 8, 8], "classes": 10, "kind": "images"}
PLAIN, WITH_DROPOUT = "mnist-mlp-chainer", "mnist-mlp-keras"
AUDITED = 3


def network_of(recipe, shape, classes):
    """The layers of a recipe's network, with fewer units."""
    nodes = RECIPES[recipe].architecture(shape, classes).nodes
    layers = [(node.name, node.op, dict(node.attributes)) for node in nodes]
    for _, op, attributes in layers[:-1]:
        if op == "Dense":
            attributes["units"] = 64
    return chain("small", shape, layers)


def resolved_of(recipe):
    small = replace(RECIPES[recipe], architecture=partial(network_of, recipe))
    return ResolvedTraining(small, settings(input={"subtract_mean": False}), MANIFEST)


@pytest.fixture(scope="module")
def splits():
    """Ten classes of noisy patterns, which a network learns in some epochs."""
    generator = np.random.default_rng(8)
    patterns = generator.random((10, 1, 8, 8))

    def split(samples):
        labels = generator.integers(0, 10, samples)
        images = patterns[labels] + 0.6 * generator.normal(size=(samples, 1, 8, 8))
        return images.astype(np.float32), labels

    return {"train": split(1500), "test": split(200)}


class Faulty(Reference):
    """A training in numpy. fault: called before each step of the audited epoch; it returns the step's masks."""

    def train_step(self, images, labels, masks=None):
        """Train a step with the fault."""
        if self.fault is None:
            return super().train_step(images, labels, masks)
        self.taken += 1
        return super().train_step(images, labels, self.fault(self.taken, masks))


class Draws:
    """A generator of masks that are not as they should be."""

    def __init__(self, draw):
        self.random = draw


def half_rate(trainer, step, masks):
    trainer.constants["learning_rate"] = trainer.first_rate / 2
    return masks


def one_skipped(trainer, step, masks):
    trainer.constants["learning_rate"] = trainer.first_rate * (step != 6)
    return masks


def every_second_skipped(trainer, step, masks):
    trainer.constants["learning_rate"] = trainer.first_rate * (step % 2)
    return masks


def moments_forgotten(trainer, step, masks):
    if step == 1:
        trainer.set_slots({}, trainer.step)
    return masks


def decayed(trainer, step, masks):
    trainer.set_weights({name: array * (1 - 1e-3) for name, array in trainer.weights().items()})
    return masks


def bfloat16_weights(trainer, step, masks):
    rounded = {name: array.astype(np.float32).view(np.uint32) & 0xFFFF0000 for name, array in trainer.weights().items()}
    trainer.set_weights({name: array.view(np.float32) for name, array in rounded.items()})
    return masks


def no_masks(trainer, step, masks):
    return None


def rate_of_a_third(trainer, step, masks):
    return Draws(lambda shape: masks.random(shape) * 0.6)


FAULTS = {
    (PLAIN, None): set(),
    (PLAIN, half_rate): {"losses", "weights"},
    (PLAIN, one_skipped): {"losses", "weights"},
    (PLAIN, moments_forgotten): {"losses", "weights"},
    (PLAIN, decayed): {"losses", "weights"},
    (PLAIN, bfloat16_weights): {"losses", "weights"},
    (WITH_DROPOUT, None): set(),
    (WITH_DROPOUT, half_rate): {"size"},
    (WITH_DROPOUT, every_second_skipped): {"size"},
    (WITH_DROPOUT, no_masks): {"dropout", "size"},
    (WITH_DROPOUT, rate_of_a_third): {"size"},
}
"""Quantities that must exceed their limits, by recipe and fault; others may, too, but none without a fault."""


def trained(resolved, splits, fault=None, epochs=4, evaluate=lambda epoch, weights: weights):
    """(record, audited epoch) of a run in numpy. evaluate: the weights that an evaluation after an epoch takes."""
    trainer = Faulty(resolved.architecture, resolved.initial_weights(1), resolved.first_optimizer)
    for split, (inputs, labels) in splits.items():
        trainer.load(split=split, inputs=inputs, labels=labels)
    trainer.first_rate, trainer.taken = trainer.constants["learning_rate"], 0

    def evaluation(epoch):
        kept = trainer.weights()
        trainer.set_weights(evaluate(epoch, kept))
        loss, _ = cross_entropy_and_accuracy(trainer.predict("test"), splits["test"][1])
        trainer.set_weights(kept)
        return {"loss": loss}

    initial, curves = evaluation(0), []
    for epoch in range(1, epochs + 1):
        before, slots = trainer.weights(), trainer.slots()
        trainer.fault = partial(fault, trainer) if fault and epoch == AUDITED else None
        losses = trainer.train_epoch(resolved.feed(1, epoch))
        trainer.constants["learning_rate"] = trainer.first_rate
        curves.append({"step_losses": encode_step_losses(losses.tolist()), "evaluations": {"test": evaluation(epoch)}})
        if epoch == AUDITED:
            kept = KeptEpoch(epoch, before, slots, trainer.weights(), slot_sizes(trainer.slots()))
    run = {"id": "a", "repeat": 1, "epochs": epochs}
    return {"run": run, "settings": resolved.settings, "initial_evaluation": initial, "curves": curves}, kept


def differences(resolved, splits, record, kept, count=4):
    """Of each quantity the difference that the reference finds."""
    reference = Reference(resolved.architecture, kept.before, resolved.first_optimizer)
    reference.load(split="train", inputs=splits["train"][0], labels=splits["train"][1])
    found = AuditedRun(resolved, record, kept, splits).differences(reference, count)
    return {one.what: one for one in found}


@pytest.mark.parametrize(("recipe", "fault"), FAULTS)
def test_what_an_audit_refuses(splits, recipe, fault):
    resolved = resolved_of(recipe)
    found = differences(resolved, splits, *trained(resolved, splits, fault))
    print(recipe, fault and fault.__name__, {what: f"{one.excess:.2g}" for what, one in found.items()})
    wrong = {what for what, one in found.items() if one.excess > 1}
    assert wrong >= FAULTS[recipe, fault]
    assert fault or not wrong


@pytest.mark.parametrize("recipe", [PLAIN, WITH_DROPOUT])
def test_an_optimizer_that_begins_anew_after_each_epoch_is_refused(splits, recipe):
    resolved = resolved_of(recipe)
    record, kept = trained(resolved, splits)
    lost = replace(kept, slot_sizes=dict.fromkeys(kept.slot_sizes, 0.0))
    found = differences(resolved, splits, record, lost)
    assert {what for what, one in found.items() if one.excess > 1} == {"optimizer"}


@pytest.mark.parametrize("epoch", [AUDITED - 1, AUDITED])
def test_an_evaluation_of_other_weights_is_refused(splits, epoch):
    resolved = resolved_of(WITH_DROPOUT)

    def averaged(of_epoch, weights):
        return {name: array * (0.99 if of_epoch == epoch else 1) for name, array in weights.items()}

    found = differences(resolved, splits, *trained(resolved, splits, evaluate=averaged), count=2)
    place = "test loss before" if epoch < AUDITED else "test loss after"
    assert {what for what, one in found.items() if one.excess > 1} == {place}


def test_numpy_replays_networks_of_dense_layers_alone():
    networks = {name: has_reference(resolved_of(name)) for name in (PLAIN, WITH_DROPOUT, "mnist-mlp-flux")}
    assert all(networks.values())
    assert not has_reference(
        ResolvedTraining(RECIPES["imagenet-nin"], settings(), MANIFEST | {"sample_shape": [3, 99, 99]})
    )


# --- the epoch that is kept -----------------------------------------------------------------------------------------

NETWORK = chain("n", (1, 3, 3), [("flatten", "Flatten", {}), ("dense", "Dense", {"units": 2})])


def adapter():
    built = FakeAdapter()
    weights = draw_initial_weights(NETWORK, "glorot_uniform", (1, 1))
    built.build(architecture=NETWORK, weights=weights, optimizer=MOMENTUM, device="cpu", dtype="float32")
    return built


def record_of(kept):
    return {"weights": {"audit": kept}}


def test_each_epoch_is_kept_with_the_same_probability(tmp_path, monkeypatch):
    """Of four epochs, the draws of all 4! paths keep each one six times."""
    kept = []
    for path in np.ndindex(1, 2, 3, 4):
        draws = list(path[:0:-1])
        monkeypatch.setattr(audited_epoch.secrets, "randbelow", lambda count, draws=draws: draws.pop())
        epochs = AuditedEpoch(tmp_path / "audit.npz", adapter(), range(3, 7), None)
        for epoch in range(1, 9):
            epochs.begin(epoch)
            epochs.end(epoch)
        kept.append(epochs.kept["epoch"])
    assert sorted(kept) == sorted([3, 4, 5, 6] * 6)


def test_a_kept_epoch_is_read_as_it_was(tmp_path):
    one, file = adapter(), tmp_path / "audit.npz"
    epochs = AuditedEpoch(file, one, range(1, 3), None)
    epochs.begin(1)
    before = one.weights()
    one.set_weights({name: array + 1 for name, array in before.items()})
    kept = epochs.end(1)
    assert kept == {"epoch": 1, "file": "audit.npz", "sha256": sha256_of(file)}
    read = read_kept(tmp_path / "record.json", record_of(kept), NETWORK, "momentum_sgd")
    assert {name: array.tolist() for name, array in read.before.items()} == {n: a.tolist() for n, a in before.items()}
    assert all((read.after[name] == array + 1).all() for name, array in before.items())
    assert set(read.slots) == {"dense.kernel.velocity", "dense.bias.velocity"}
    assert AuditedEpoch(file, one, range(1, 3), kept).kept == kept, "a run that resumes goes on with it"
    for spoil, network, why in [
        (lambda: None, ARCHITECTURE, "of another network"),
        (lambda: file.write_bytes(b""), NETWORK, "damaged or of another run"),
        (file.unlink, NETWORK, "is missing"),
    ]:
        spoil()
        with pytest.raises(RecordError, match=why):
            read_kept(tmp_path / "record.json", record_of(kept), network, "momentum_sgd")
    assert AuditedEpoch(file, one, range(1, 3), kept).kept is None, "the next epoch is kept instead"


@pytest.mark.parametrize(("epochs", "repeats", "audited"), [([2], 1, 1), ([6], 6, 2), ([5, 20], 8, 2), ([1], 3, 1)])
def test_the_plan_draws_the_same_repeats_for_all_trainers_once(tmp_path, epochs, repeats, audited):
    path = tmp_path / "plan.json"
    experiment = settings() | {"epochs": epochs, "repeats": repeats}

    def drawn(trainer):
        write_plan(path, {"config": {"experiments": {"e": experiment}}})
        plan = json.loads(path.read_text())
        runs = [Run("e", PLAIN, "digits", trainer, each, n) for each in epochs for n in range(1, repeats + 1)]
        drawn_from = {(run.epochs, run.repeat): audited_epochs(run, plan) for run in runs}
        return {run: epochs for run, epochs in drawn_from.items() if epochs}

    first = drawn(Trainer("chainer", "cpu"))
    assert len(first) == audited
    assert {of_run for of_run, _ in first} == {max(epochs)}
    assert sorted(sum(map(tuple, first.values()), ())) == [*range(1, max(epochs) + 1)]
    assert drawn(Trainer("torch", "gpu")) == first
