"""The certified steps: one trainer takes them one by one, and everything it shows is stored as a trace.

The steps run through the `stock` loop: each is a call of `Adapter.train_epoch` on an epoch of one batch. After them the
trainer is compared with float64 (precision_check), it trains whole epochs of full batches (whole_epochs), and its
adapter is checked against numpy (adapter_check).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from trainmark.errors import PrecisionError, ShapeError, UnobservedError
from trainmark.frameworks.adapter import Adapter, ObservedAdapter
from trainmark.networks.graph import Architecture
from trainmark.parity.adapter_check import check_adapter
from trainmark.parity.epoch_check import EpochTrace
from trainmark.parity.precision_check import check_precision
from trainmark.parity.sketches import Sketches
from trainmark.parity.trace import Failure, PrecisionDifference, StageTrace, Trace
from trainmark.parity.update_check import UpdateCheck
from trainmark.parity.whole_epochs import CertifiedEpochs, is_large, train_epochs
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights, random_signs
from trainmark.recipes.recipe import Optimizer
from trainmark.trainer import Trainer

CERTIFIED_STEPS, LARGE_NETWORK_STEPS = 10, 5
"""Number of certified steps, and of those of a large network (see `whole_epochs.is_large`)."""

NETWORK_STEPS = 3
"""Number of steps of the stage `network`: the first of them is that of the stage `steps`, too."""

NETWORK_RATE = 0.1
"""Learning rate of the step of plain SGD, in numpy, whose weights the stage `network` evaluates."""

EPOCH_STEPS = 2
"""Number of initial steps that are also taken as one epoch.

Small, because this epoch is not compared if fewer steps are comparable (see compare.SELF_DIVERGENCE_LIMIT).
"""

MASKS_SEED = 2
"""Part of the seed of the dropout masks; 0 is used by draw_initial_weights and 1 by epoch_feed."""

LAST_BIT_SEED = 3
"""Seed of the signs by which the weights of a perturbed copy are changed."""


@dataclass(frozen=True)
class CertifiedTraining:
    """The training that every trainer of a certificate repeats.

    weights: the initial weights.
    optimizer: the experiment's optimizer, with the constants of the first epoch.
    splits: (inputs, labels) of "train" and "test", only the samples that are used; images float64, token ids int32.
    batches: indices into "train", (steps, samples of a step).
    seed: that of the run, from which the masks of the certificate are drawn.
    full_batches: indices into "train" of batches of the recipe's size, (batches, samples). None: do not check the
        precision.
    epochs: the whole epochs to train after the steps. None: train none, and do not check the adapter against numpy.
    settings: description of this training for the certificate.
    restarts: whether a new optimizer goes on with the weights in the middle of the steps.
    """

    architecture: Architecture
    weights: Weights
    optimizer: Optimizer
    splits: Mapping[str, tuple[np.ndarray, np.ndarray]]
    batches: np.ndarray
    seed: tuple[int, ...]
    full_batches: np.ndarray | None = None
    epochs: CertifiedEpochs | None = None
    settings: Mapping = field(default_factory=dict)
    restarts: bool = False


@dataclass(frozen=True)
class Stage:
    """One of the trainings of a trace, all in float64. Each starts from the initial weights.

    masks: apply dropout with masks drawn by numpy; otherwise dropout is off.
    independent: take each of NETWORK_STEPS steps from the initial weights. What the optimizer makes of the weights is
        not looked at; a step of plain SGD with the trainer's own gradients takes its place.
    also_as_epoch: also run the first EPOCH_STEPS steps as a single epoch, as runs do; this reveals a wrong batch order
        or state that is lost between steps.
    perturb_weights: start from slightly changed initial weights; only losses, gradients and weights of the steps are
        stored.
    """

    masks: bool = False
    independent: bool = False
    also_as_epoch: bool = False
    perturb_weights: bool = False


STAGES = {
    "steps": Stage(also_as_epoch=True),
    "perturbed copy": Stage(perturb_weights=True),
    "network": Stage(independent=True),
    "masks": Stage(masks=True),
}
"""The stages of a trace, in the order in which they are trained.

steps: the recipe's training.
perturbed copy: `steps` from initial weights changed in their last bit; shows how fast the training diverges from
itself.
network: the network by itself, each batch from the initial weights.
masks: the recipe's training with dropout; left out if the network has none.
All share one build of the network, which some frameworks compile for as long as they train these steps. Masks cannot be
removed once set, so `masks` is the last one.
"""


def certified_step_count(architecture: Architecture) -> int:
    """Return the number of certified steps of a network."""
    return LARGE_NETWORK_STEPS if is_large(architecture) else CERTIFIED_STEPS


def trace(
    adapter: Adapter, training: CertifiedTraining, trainer: Trainer, stages: Mapping[str, Stage] = STAGES
) -> Trace:
    """Take the steps of each stage, train the whole epochs, check the adapter, and return what it showed.

    An adapter that shows no gradients, a layer with another output shape, 16-bit numbers and out of memory do not
    raise; they end the trace and are stored as its `failure`. Raises DeviceError if the framework does not see the
    device or puts its arrays on another one.
    """
    stage_traces: dict[str, StageTrace] = {}
    precision: tuple[PrecisionDifference, ...] = ()
    epochs: EpochTrace | None = None
    checks: dict[str, str | None] = {}
    failure, name = None, ""
    try:
        if not isinstance(adapter, ObservedAdapter):
            raise UnobservedError(f"{adapter.framework} does not show its gradients")
        if trainer.workers > (samples := training.batches.shape[1]):
            raise UnobservedError(f"the steps of the certificate have {samples} samples for {trainer.workers} workers")
        for name, stage, state in _prepared_stages(adapter, training, trainer.device, stages):
            stage_traces[name] = _trace_stage(adapter, training, stage, state)
        name = "precision"
        precision = _check_precision(adapter, training, trainer.device)
        if training.epochs:
            name = "epochs"
            epochs = train_epochs(adapter, training.epochs, trainer.device)
            name = "checks"
            checks = check_adapter(
                adapter, training.architecture, training.optimizer, training.seed, trainer.device, trainer.workers
            )
    except UnobservedError as error:
        failure = Failure("unobserved", next(iter(stages)), None, str(error))
    except ShapeError as error:
        failure = Failure("shape", name, error.node, str(error))
    except PrecisionError as error:
        failure = Failure("precision", name, None, str(error))
    except Exception as error:
        if not adapter.is_out_of_memory(error):
            raise
        print(f"out of memory in the stage {name}: {error}", flush=True)  # to the log: it may have many lines
        failure = Failure("out_of_memory", name, None, type(error).__name__)
    ops = tuple(adapter.float32_ops)
    return Trace(trainer, adapter.versions(), stage_traces, precision, epochs, checks, training.settings, failure, ops)


def _prepared_stages(
    adapter: ObservedAdapter, training: CertifiedTraining, device: str, stages: Mapping[str, Stage]
) -> Iterator[tuple[str, Stage, Weights]]:
    """Yield (name, stage, initial state) of each stage that applies, with the adapter in that state."""
    state = _build(adapter, training, device, "float64", training.optimizer, training.batches.shape[1])
    for name, stage in stages.items():
        if stage.masks and not training.architecture.has_dropout:
            continue
        adapter.set_state(state)
        if stage.perturb_weights:
            adapter.set_weights(perturbed_weights(training.weights))
        yield name, stage, adapter.state()


def _build(
    adapter: ObservedAdapter,
    training: CertifiedTraining,
    device: str,
    dtype: str,
    optimizer: Optimizer,
    observed_batch: int | None,
) -> Weights:
    """Build the adapter from the initial weights, load its samples, and return its state.

    observed_batch: see `ObservedAdapter.build`. None: as for a run, but without dropout.
    """
    architecture = training.architecture
    adapter.build(
        architecture=architecture if observed_batch else architecture.without_dropout(),
        weights=training.weights,
        optimizer=optimizer,
        device=device,
        dtype=dtype,
        observed_batch=observed_batch,
    )
    adapter.check_device(device)
    adapter.check_precision("weights", adapter.weights())
    for split, (inputs, labels) in training.splits.items():
        cast_inputs = inputs.astype(dtype) if np.issubdtype(inputs.dtype, np.floating) else inputs
        adapter.load(split=split, inputs=cast_inputs, labels=labels)
    return adapter.state()


def _check_precision(
    adapter: ObservedAdapter, training: CertifiedTraining, device: str
) -> tuple[PrecisionDifference, ...]:
    batches = training.full_batches
    if batches is None:
        return ()
    samples = batches.shape[1]
    return check_precision(
        adapter,
        training.architecture,
        training.weights,
        batches,
        training.optimizer,
        training.splits["train"],
        lambda dtype, optimizer, observed: _build(
            adapter, training, device, dtype, optimizer, samples if observed else None
        ),
    )


def _trace_stage(adapter: ObservedAdapter, training: CertifiedTraining, stage: Stage, state: Weights) -> StageTrace:
    checks_updates = not (stage.perturb_weights or stage.independent)  # a copy does not affect the class
    batches = training.batches[:NETWORK_STEPS] if stage.independent else training.batches
    initial_weights = adapter.weights()
    epoch_losses, epoch_weights = np.zeros(0), None
    if stage.also_as_epoch:  # before the steps: they reuse its compiled functions and its room for losses
        order = np.concatenate(training.batches[:EPOCH_STEPS])
        feed = EpochFeed(order, training.batches.shape[1], len(order), dropout_seed=0)
        epoch_losses, epoch_weights = adapter.train_epoch(feed), Sketches.of(adapter.weights())
        adapter.set_state(state)
    losses, gradients, weights, updates = [], [], [], []
    activations = Sketches.of({})
    for step, batch in enumerate(batches, start=1):
        if _prepare_step(adapter, training, stage, state, step):
            check = UpdateCheck(training.architecture, training.optimizer, adapter.weights())
        if step == 1 and not stage.perturb_weights:
            activations = _sketch_checked(adapter, "output", adapter.activations("train", batch, training=True))
        losses.append(adapter.train_epoch(EpochFeed(batch, len(batch), len(batch), dropout_seed=0))[0])
        gradient, final = adapter.gradients(), adapter.weights()
        if stage.independent:
            final |= {name: initial_weights[name] - NETWORK_RATE * array for name, array in gradient.items()}
        gradients.append(_sketch_checked(adapter, "gradient", gradient))
        weights.append(Sketches.of(final))
        if checks_updates:
            updates.append(check.check_step(gradient, final))
    if stage.independent:
        adapter.set_weights(final)
    evaluation, logits = (None, None) if stage.perturb_weights else _evaluate(adapter, training, stage)
    return StageTrace(
        rule=training.optimizer.rule,
        losses=np.array(losses, np.float64),
        epoch_losses=epoch_losses,
        epoch_weights=epoch_weights,
        update_layers=tuple(layer for layer, _ in updates),
        update_errors=np.array([error for _, error in updates], np.float64),
        initial_weights=Sketches.of(initial_weights),
        activations=activations,
        gradients=tuple(gradients),
        weights=tuple(weights),
        evaluation=evaluation,
        logits=logits,
        final={} if stage.perturb_weights else final,
    )


def _prepare_step(
    adapter: ObservedAdapter, training: CertifiedTraining, stage: Stage, state: Weights, step: int
) -> bool:
    """Bring the adapter to the beginning of a step; return whether its optimizer knows nothing of earlier steps."""
    is_restart = training.restarts and not stage.independent and step == len(training.batches) // 2 + 1
    if stage.independent:
        adapter.set_state(state)
    elif is_restart:
        adapter.restart_optimizer(state)
    if stage.masks:
        adapter.set_masks(draw_masks(training.architecture, training.batches.shape[1], training.seed, step))
    return step == 1 or is_restart


def _evaluate(adapter: ObservedAdapter, training: CertifiedTraining, stage: Stage) -> tuple[Sketches, np.ndarray]:
    """Return (outputs of every node, output of the last one) for the test samples."""
    outputs = adapter.activations("test", np.arange(len(training.splits["test"][1])), training=False)
    output = training.architecture.output
    # `predict`, from which runs compute their accuracy, is compiled separately, and tested in the simplest stages.
    logits = adapter.predict("test") if stage.independent else outputs[output]
    adapter.check_precision("prediction", {output: logits})
    return _sketch_checked(adapter, "output", outputs), logits


def _sketch_checked(adapter: Adapter, what: str, arrays: Mapping[str, np.ndarray]) -> Sketches:
    adapter.check_precision(what, arrays)
    return Sketches.of(arrays)


def perturbed_weights(weights: Weights) -> Weights:
    """Return a copy with the last bit of each float64 changed, up or down at random; zeros stay zero."""
    signs = random_signs(weights, LAST_BIT_SEED)
    return {name: np.nextafter(array, array * 2.0 ** signs[name]) for name, array in weights.items()}


def draw_masks(architecture: Architecture, samples: int, seed: tuple[int, ...], step: int) -> Weights:
    """Return the factors of each Dropout layer in a step: 0 or 1 / (1 - rate), float64, (samples, *shape)."""
    generator = np.random.default_rng([*seed, MASKS_SEED, step])
    shapes = architecture.shapes()
    masks = {}
    for node in architecture.nodes:
        if node.op == "Dropout":
            keep = generator.random((samples, *shapes[node.name])) >= node.attributes["rate"]
            masks[node.name] = keep / (1 - node.attributes["rate"])
    return masks
