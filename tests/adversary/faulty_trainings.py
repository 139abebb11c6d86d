"""Faults to inject into an adapter, which show only in float32, in full batches or in whole epochs.

Where possible, a faulty training reports the counts of samples, batches and updates that a correct one would have. As a
script: faulty_trainings.py NAME SCRIPT ARGUMENTS... runs a script of the workflow with the fault in every adapter.
"""

import runpy
import sys
from dataclasses import replace
from functools import wraps
from pathlib import Path

import numpy as np


def in_train_epoch(faulty):
    """A fault in `train_epoch`: `faulty` takes the adapter, the true method and the feed. The counts are faked."""

    def inject(adapter):
        true = adapter.train_epoch
        faked = {"updates": 0}
        true_build, true_set_state = adapter.build, adapter.set_state

        def build(**arguments):
            faked["updates"] = 0
            true_build(**arguments)

        def set_state(state):
            faked["updates"] = state.get("fault_updates", np.array(0)).item()
            true_set_state({name: array for name, array in state.items() if name != "fault_updates"})

        true_state = adapter.state

        def train_epoch(feed):
            losses = faulty(adapter, true, feed) if feed.steps > 2 else true(feed)
            faked["updates"] += feed.steps
            adapter.counted = lambda: {"samples": feed.samples, "batches": feed.steps, "updates": faked["updates"]}
            return losses

        adapter.build, adapter.set_state, adapter.train_epoch = build, set_state, train_epoch
        adapter.state = lambda: true_state() | {"fault_updates": np.array(faked["updates"])}

    return inject


def part_of(feed, start, end):
    """A feed of the batches from `start` to `end`."""
    order = np.arange(feed.samples) if feed.order is None else feed.order
    order = order[start * feed.batch_size : end * feed.batch_size]
    return replace(feed, order=order, samples=len(order))


def untrained(adapter, true, feed):
    """Return the losses of a feed without training: the state is restored."""
    state = {name: array for name, array in adapter.state().items() if name != "fault_updates"}
    losses = true(feed)
    type(adapter).set_state(adapter, state)
    return losses


def first_samples(adapter, true, feed):
    """The first 1,024 samples only."""
    return true(replace(feed, order=feed.order % 1024))


STEPS = {"taken": 0}


def every_20th_update_skipped(adapter, true, feed):
    losses = []
    for step in range(feed.steps):
        STEPS["taken"] += 1
        skipped = STEPS["taken"] % 20 == 0
        part = part_of(feed, step, step + 1)
        losses.append(untrained(adapter, true, part) if skipped else true(part))
    return np.concatenate(losses)


def half_epoch(adapter, true, feed):
    half = feed.steps // 2
    trained = true(part_of(feed, 0, half))
    return np.concatenate([trained, untrained(adapter, true, part_of(feed, half, feed.steps))])


EPOCHS = {"taken": 0}


def reshuffled_from_epoch_2(adapter, true, feed):
    EPOCHS["taken"] += 1
    if EPOCHS["taken"] == 1:
        return true(feed)
    return true(replace(feed, order=np.random.default_rng(EPOCHS["taken"]).permutation(feed.order)))


def last_batch_padded(adapter, true, feed):
    """Fill the last batch from the beginning, as some iterators do."""
    missing = -feed.samples % feed.batch_size
    order = np.concatenate([feed.order, feed.order[:missing]])
    return true(replace(feed, order=order, samples=len(order)))


def last_batch_not_trained(adapter, true, feed):
    trained = true(part_of(feed, 0, feed.steps - 1))
    return np.concatenate([trained, untrained(adapter, true, part_of(feed, feed.steps - 1, feed.steps))])


def trained_twice(adapter, true, feed):
    losses = true(feed)
    true(feed)
    return losses


def optimizer_reset(adapter, true, feed):
    """The optimizer forgets its state before each epoch."""
    weights, first = adapter.weights(), adapter.first_state
    type(adapter).set_state(adapter, {n: a for n, a in first.items() if n != "fault_updates"})
    adapter.set_weights(weights)
    return true(feed)


def with_first_state(inject):
    """A fault that needs the state right after `build`."""

    def faulty(adapter):
        inject(adapter)
        build = adapter.build

        def built(**arguments):
            build(**arguments)
            adapter.first_state = adapter.state()

        adapter.build = built

    return faulty


def other_rate(adapter):
    """A learning rate that is 1 % too large in trainings without `observed_batch`."""
    build = adapter.build

    def faulty(*, optimizer, observed_batch=None, **rest):
        if observed_batch is None:
            optimizer = replace(optimizer, learning_rate=1.01 * optimizer.learning_rate)
        build(optimizer=optimizer, observed_batch=observed_batch, **rest)

    adapter.build = faulty


def rates_ignored(adapter):
    """Trains every epoch with the constants of the first one."""
    train_epoch = adapter.train_epoch
    adapter.train_epoch = lambda feed: train_epoch(replace(feed, rates=()))


def evaluation_on_100_samples(adapter):
    predict = adapter.predict
    adapter.predict = lambda split: predict(split)[np.arange(len(predict(split))) % 100]


def counts_too_few(adapter):
    counted = adapter.counted
    adapter.counted = lambda: counted() | {"updates": max(counted()["updates"] - 1, 0)}


def larger_inputs(adapter):
    load = adapter.load
    adapter.load = lambda *, split, inputs, labels: load(
        split=split, inputs=inputs * inputs.dtype.type(1.01), labels=labels
    )


def float16_inputs(adapter):
    load = adapter.load

    def faulty(*, split, inputs, labels):
        if inputs.dtype == np.float32:
            inputs = inputs.astype(np.float16).astype(np.float32)
        load(split=split, inputs=inputs, labels=labels)

    adapter.load = faulty


def two_byte_predictions(adapter):
    predict = adapter.predict
    adapter.predict = lambda split: predict(split).astype(np.float16)


# --- in what the frameworks compute ---------------------------------------------------------------------------------


def microbatches(adapter):
    """The mean of the losses of microbatches of 32, the last one smaller."""
    if adapter.framework == "chainer":
        from trainmark.frameworks.chainer_layers import chainer

        true = chainer.functions.softmax_cross_entropy

        def faulty(logits, labels):
            parts = [slice(start, start + 32) for start in range(0, len(labels), 32)]
            return sum(true(logits[part], labels[part]) for part in parts) / len(parts)

        chainer.functions.softmax_cross_entropy = faulty
        return
    from keras import ops

    from trainmark.frameworks import keras_losses

    true_losses = keras_losses.cross_entropies

    def weighted(labels, logits, weights):
        losses = true_losses(labels, logits, weights)
        samples = losses.shape[0] or 100
        if samples <= 32:
            return losses
        parts = np.arange(samples) // 32
        factors = samples / (parts.max() + 1) / np.bincount(parts)[parts]
        return losses * ops.convert_to_tensor(factors.astype("float32"))

    keras_losses.cross_entropies = weighted


def _chainer_dropout(faulty):
    """A fault in the dropout that Chainer draws itself."""

    def inject(adapter):
        from trainmark.frameworks import chainer_layers

        chainer_layers.FUNCTIONS["Dropout"] = lambda node, x: faulty(chainer_layers.chainer, x, node.attributes["rate"])

    return inject


def dropout_scaled(chainer, x, rate):
    return chainer.functions.dropout(x, rate) * (1.01 if chainer.config.train else 1)


def dropout_rate(chainer, x, rate):
    return chainer.functions.dropout(x, 1.025 * rate)


def one_mask(chainer, x, rate):
    if not chainer.config.train:
        return x
    kept = (x.xp.random.random(x.shape[1:]) >= rate).astype(x.dtype) / np.float32(1 - rate)
    return x * x.xp.broadcast_to(kept, x.shape)


def dropout_in_evaluation(chainer, x, rate):
    with chainer.using_config("train", True):
        return chainer.functions.dropout(x, rate)


def no_dropout(chainer, x, rate):
    return x


def other_masks_for_a_seed(adapter):
    train_epoch, drawn = adapter.train_epoch, iter(range(10**6))
    adapter.train_epoch = lambda feed: train_epoch(replace(feed, dropout_seed=feed.dropout_seed + next(drawn)))


def same_masks_each_epoch(adapter):
    train_epoch = adapter.train_epoch
    adapter.train_epoch = lambda feed: train_epoch(replace(feed, dropout_seed=1))


def _keras_dense(faulty):
    """A fault in Keras's Dense, only in float32."""

    def inject(adapter):
        import keras

        true = keras.layers.Dense.call

        def call(self, inputs, training=None):
            return faulty(keras, true, self, inputs) if keras.config.floatx() == "float32" else true(self, inputs)

        keras.layers.Dense.call = call

    return inject


def bfloat16_products(keras, true, layer, inputs):
    """Both factors of the product are rounded to bfloat16."""

    def rounded(values):
        return keras.ops.cast(keras.ops.cast(values, "bfloat16"), "float32")

    return keras.ops.matmul(rounded(inputs), rounded(layer.kernel)) + layer.bias


def _chainer_hook(make, observed=False):
    """A hook of Chainer's optimizer before each update; with `observed` also in trainings with `observed_batch`."""

    def inject(adapter):
        from trainmark.frameworks.chainer_layers import chainer

        build = adapter.build

        def faulty(*, observed_batch=None, **arguments):
            build(observed_batch=observed_batch, **arguments)
            if observed or observed_batch is None:
                adapter._optimizer.add_hook(make(chainer), timing="pre")

        adapter.build = faulty

    return inject


class RoundedGradients:
    """Rounds gradients to float16, only in float32."""

    name, timing, call_for_each_param = "rounding", "pre", False

    def __call__(self, optimizer):
        for parameter in optimizer.target.params():
            if parameter.grad is not None and parameter.grad.dtype == np.float32:
                parameter.grad[...] = parameter.grad.astype(np.float16)


# --- dropout --------------------------------------------------------------------------------------------------------


def train_missing(adapter):
    """The network stays in evaluation after the first prediction: `eval()`, and no `train()` after it."""
    module = sys.modules[f"trainmark.frameworks.{adapter.framework}_layers"]
    true_train, build, predict = module.Network.train, adapter.build, adapter.predict
    seen = {}

    def faulty_build(*, observed_batch=None, **arguments):
        seen.update(observed=observed_batch, predicted=False)
        build(observed_batch=observed_batch, **arguments)

    def faulty_predict(split):
        seen["predicted"] = not seen["observed"]
        return predict(split)

    def train(network, *mode):
        return network if seen["predicted"] and mode != (False,) else true_train(network, *mode)

    module.Network.train, adapter.build, adapter.predict = train, faulty_build, faulty_predict


def _torch_dropout(draw):
    """A fault in torch's dropout. draw: function (layer, shape) -> uniform numbers; `layer.step` counts from 0."""

    def inject(adapter):
        import torch

        from trainmark.frameworks import torch_layers

        class Dropout(torch.nn.Dropout):
            generator = seed = None

            def forward(self, x):
                if not self.training:
                    return x
                if self.seed != torch.initial_seed():
                    self.seed, self.step = torch.initial_seed(), 0
                    self.generator = torch.Generator().manual_seed(self.seed)
                mask = draw(self, x.shape) >= self.p
                self.step += 1
                return x * mask / (1 - self.p)

        torch_layers.LAYERS["Dropout"] = lambda node, shape: Dropout(node.attributes["rate"])

    return inject


def equal_in_layers(layer, shape):
    """Each layer draws from a generator of its own, and all have the same seed."""
    import torch

    return torch.rand(shape, generator=layer.generator)


def half_repeated(layer, shape):
    import torch

    return torch.rand(shape[0], -(-shape[1] // 2), *shape[2:]).repeat(1, 2, *[1 for _ in shape[2:]])[:, : shape[1]]


def in_turns(count):
    """So many masks of the beginning of an epoch, used in turns."""

    def draw(layer, shape):
        import torch

        layer.drawn = [] if layer.step == 0 else layer.drawn
        if layer.step < count:
            layer.drawn.append(torch.rand(shape))
        return layer.drawn[layer.step % count]

    return draw


def seeds_of_a_byte(adapter):
    train_epoch = adapter.train_epoch
    adapter.train_epoch = lambda feed: train_epoch(replace(feed, dropout_seed=feed.dropout_seed % 256))


def dropout_in_first_layer(adapter):
    """Chainer's network drops nothing in the layers after the first one with dropout."""
    from trainmark.frameworks import chainer_layers

    functions = chainer_layers.FUNCTIONS
    true = functions["Dropout"]
    functions["Dropout"] = lambda node, x: true(node, x) if node.name == "dropout1" else x


# --- precision ------------------------------------------------------------------------------------------------------


def backwards(bits, of_layer=lambda units: True):
    """Factors of the products of Dense's backward pass are rounded to so many bits of mantissa, as in runs alone.

    of_layer: function (units of a layer) -> whether it has the fault.
    """

    def inject(adapter):
        in_run, build = {}, adapter.build

        def faulty(*, observed_batch=None, dtype, **arguments):
            in_run["now"] = observed_batch is None and dtype == "float32"
            build(observed_batch=observed_batch, dtype=dtype, **arguments)

        adapter.build = faulty
        patch = _torch_backwards if adapter.framework == "torch" else _flax_backwards
        patch(bits, lambda units: in_run["now"] and of_layer(units))

    return inject


def _torch_backwards(bits, of_layer):
    import torch

    def rounded(values):
        half, kept = 1 << 22 - bits, -1 << 23 - bits
        return (values.contiguous().view(torch.int32) + half & kept).view(torch.float32)

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(context, inputs, weight):
            context.save_for_backward(inputs, weight)
            return inputs @ weight.T

        @staticmethod
        def backward(context, gradient):
            inputs, weight = map(rounded, context.saved_tensors)
            gradient = rounded(gradient)
            return gradient @ weight, gradient.T @ inputs

    true = torch.nn.Linear.forward

    def forward(self, inputs):
        if not of_layer(self.out_features):
            return true(self, inputs)
        return Product.apply(inputs, self.weight) + self.bias

    torch.nn.Linear.forward = forward


def _flax_backwards(bits, of_layer):
    import jax
    from flax import nnx

    def rounded(values):
        return jax.lax.reduce_precision(values, exponent_bits=8, mantissa_bits=bits)

    @jax.custom_vjp
    def product(inputs, kernel):
        return inputs @ kernel

    def backward(factors, gradient):
        inputs, kernel = map(rounded, factors)
        return rounded(gradient) @ kernel.T, inputs.T @ rounded(gradient)

    product.defvjp(lambda inputs, kernel: (inputs @ kernel, (inputs, kernel)), backward)
    true = nnx.Linear.__call__

    def call(self, inputs):
        if not of_layer(self.out_features):
            return true(self, inputs)
        return product(inputs, self.kernel[...]) + self.bias[...]

    nnx.Linear.__call__ = call


def second_moment_in_bfloat16(adapter):
    import torch

    build = adapter.build

    def round_moments(optimizer, *_):
        for of_weight in optimizer.state.values():
            moment = of_weight.get("exp_avg_sq")  # plain SGD has none
            if moment is not None and moment.dtype == torch.float32:
                moment.copy_(moment.bfloat16())

    def faulty(**arguments):
        build(**arguments)
        adapter._optimizer.register_step_post_hook(round_moments)

    adapter.build = faulty


class RoundedFirstMoments:
    """Rounds Chainer's first moments to float16, only in float32."""

    name, timing, call_for_each_param = "moments", "post", False

    def __call__(self, optimizer):
        for parameter in optimizer.target.params():
            moment = parameter.update_rule.state.get("m")  # plain SGD has none
            if moment is not None and moment.dtype == np.float32:
                moment[...] = moment.astype(np.float16)


def bfloat16_in_full_batches(keras, true, layer, inputs):
    """Only in batches of more than 64 samples."""
    is_full = inputs.shape[0] is not None and inputs.shape[0] > 64
    return bfloat16_products(keras, true, layer, inputs) if is_full else true(layer, inputs)


def nothing(adapter):
    """No fault."""


FAULTS = {
    "nothing": nothing,
    "first 1,024 samples": in_train_epoch(first_samples),
    "microbatches": microbatches,
    "every 20th update skipped": in_train_epoch(every_20th_update_skipped),
    "half of each epoch": in_train_epoch(half_epoch),
    "reshuffled from epoch 2": in_train_epoch(reshuffled_from_epoch_2),
    "last batch padded": in_train_epoch(last_batch_padded),
    "last batch not trained": in_train_epoch(last_batch_not_trained),
    "trained twice": in_train_epoch(trained_twice),
    "optimizer reset each epoch": with_first_state(in_train_epoch(optimizer_reset)),
    "learning rate 1 % off": other_rate,
    "rates ignored": rates_ignored,
    "gradients clipped": _chainer_hook(lambda chainer: chainer.optimizer_hooks.GradientClipping(0.5)),
    "weight decay": _chainer_hook(lambda chainer: chainer.optimizer_hooks.WeightDecay(1e-4)),
    "counts one update too few": counts_too_few,
    "inputs 1 % larger": larger_inputs,
    "evaluation on 100 samples": evaluation_on_100_samples,
    "float16 inputs": float16_inputs,
    "float16 gradients": _chainer_hook(lambda chainer: RoundedGradients(), observed=True),
    "bfloat16 products": _keras_dense(bfloat16_products),
    "two-byte predictions": two_byte_predictions,
    "dropout scaled 1 % wrong": _chainer_dropout(dropout_scaled),
    "dropout rate .205": _chainer_dropout(dropout_rate),
    "one mask for a batch": _chainer_dropout(one_mask),
    "dropout in evaluation": _chainer_dropout(dropout_in_evaluation),
    "no dropout": _chainer_dropout(no_dropout),
    "other masks for the same seed": other_masks_for_a_seed,
    "same masks each epoch": same_masks_each_epoch,
    "train() missing": train_missing,
    "equal masks in two layers": _torch_dropout(equal_in_layers),
    "half a mask, repeated": _torch_dropout(half_repeated),
    "five masks in turns": _torch_dropout(in_turns(5)),
    "masks of the seed's last byte": seeds_of_a_byte,
    "dropout in the first layer alone": dropout_in_first_layer,
    "bfloat16 backwards": backwards(7),
    "TF32 backwards": backwards(10),
    "TF32 backwards in the last layer": backwards(10, lambda units: units == 10),
    "second moment in bfloat16": second_moment_in_bfloat16,
    "first moment in float16": _chainer_hook(lambda chainer: RoundedFirstMoments(), observed=True),
    "bfloat16 in full batches": _keras_dense(bfloat16_in_full_batches),
}


def main() -> None:
    """Run a script with a fault in every adapter that it creates."""
    name, script, *arguments = sys.argv[1:]
    sys.path.insert(0, str(Path(script).parent))
    from trainmark.frameworks import registry

    true = registry.create_adapter

    @wraps(true)
    def create(*arguments, **options):
        adapter = true(*arguments, **options)
        FAULTS[name](adapter)
        return adapter

    registry.create_adapter = create
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
