"""The adapter of JAX in its own idiom: Flax and optax. The loop is that of Flax's documentation: a step by nnx.jit."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from trainmark.frameworks import jax_platform
from trainmark.frameworks.adapter import (
    ObservedAdapter,
    check_array,
    check_shape,
    evaluation_batches,
    random_matrix,
)
from trainmark.frameworks.flax_layers import Mask, Network, layer_name, mean_cross_entropy
from trainmark.frameworks.flax_optimizers import RATES, STATES, create_rule, last_gradients, set_rates
from trainmark.frameworks.jax_kernels import fetched
from trainmark.frameworks.layouts import channels_first, channels_last, to_channels_first, to_channels_last
from trainmark.networks.graph import Architecture
from trainmark.networks.ops import Parameter
from trainmark.recipes.batch_order import EpochFeed
from trainmark.recipes.initial_weights import Weights
from trainmark.recipes.recipe import Optimizer
from trainmark.recipes.stream import Stream
from trainmark.recipes.update_rules import SLOTS

FRAMEWORKS = {
    "flax": {
        "packages": ["jax", "flax", "optax"],
        "environment": {
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
            "NVIDIA_TF32_OVERRIDE": "0",
            "JAX_ENABLE_COMPILATION_CACHE": "false",  # a user's own; open_compilation_cache turns it on
            "JAX_NUM_CPU_DEVICES": "1",  # whatever XLA_FLAGS say
        },
        "cpu_environment": {"JAX_PLATFORMS": "cpu"},  # otherwise its GPU build logs a traceback if there is no driver
        "also_called": ["jax", "flax-nnx", "nnx"],
        "variables": ["FLAX_", "JAX_", "NNX_"],
    },
}

ROLES = {"embeddings": "embedding", "gamma": "scale", "beta": "bias", "moving_mean": "mean", "moving_variance": "var"}
"""Flax's names of a layer's arrays by the architecture's, where they differ."""

STATE = nnx.Not(nnx.Any(nnx.RngState, Mask))
"""Of the variables of network and optimizer, those that the next epoch depends on: dropout is seeded by the feed."""


def role_name(parameter: Parameter) -> str:
    """Return Flax's name of an array of a layer."""
    return ROLES.get(parameter.role, parameter.role)


def create(framework: str, threads: int) -> "FlaxAdapter":
    """Return the adapter of a framework of FRAMEWORKS. JAX has as many threads as the process may use CPUs."""
    return FlaxAdapter(framework, threads)


def train(network: Network, optimizer: nnx.Optimizer, inputs: Any, labels: Any) -> jax.Array:
    """Train a step; return its loss."""
    loss, gradients = nnx.value_and_grad(mean_cross_entropy)(network, inputs, labels)
    optimizer.update(network, gradients)
    return loss


training_step = nnx.jit(train)


@nnx.jit
def evaluation_step(network: Network, inputs: Any) -> jax.Array:
    """Return the logits of the main head."""
    return network(inputs)[0]


class FlaxAdapter(ObservedAdapter):
    """See `adapter.Adapter`."""

    out_of_memory_texts = jax_platform.OUT_OF_MEMORY
    _replaced_layers: Mapping[str, Callable] = MappingProxyType({})
    _training_step = staticmethod(training_step)

    def __init__(self, framework: str, threads: int) -> None:
        super().__init__(framework, threads)
        jax_platform.refuse_tf32(jax)

    def build(
        self,
        *,
        architecture: Architecture,
        weights: Weights,
        optimizer: Optimizer,
        device: str,
        dtype: str,
        observed_batch: int | None = None,
    ) -> None:
        self.check_gpus(device, jax_platform.gpus(jax), "jax")
        jax.config.update("jax_enable_x64", dtype == "float64")
        self._architecture = architecture
        self._dtype = dtype
        self._splits: dict[str, tuple[Any, np.ndarray]] = {}
        self._counted = {"samples": 0, "batches": 0}
        self._rule = optimizer.rule
        rule = create_rule(stores_gradients=bool(observed_batch), **optimizer.as_dict())

        def create() -> tuple[Network, nnx.Optimizer]:
            network = Network(architecture, dtype, observed_batch, self._replaced_layers)
            return network, nnx.Optimizer(network, rule, wrt=nnx.Param)

        # Only shapes: Flax's own initializers are compiled, for seconds. What set_weights does not set starts from 0.
        self._network, self._optimizer = nnx.eval_shape(create)
        self._check_shapes()
        self._update(lambda leaf: np.zeros(leaf.shape, leaf.dtype), STATE)
        self._update(lambda leaf: np.ones(leaf.shape, leaf.dtype), Mask)
        self._seed_dropout(0)
        self.set_weights(weights)
        set_rates(self._optimizer, tuple(item for item in optimizer.as_dict().items() if item[0] in RATES))

    def _check_shapes(self) -> None:
        for parameter, variable in self._variables():
            check_array(self.framework, parameter, None if variable is None else variable.shape)
        shapes, kind = self._architecture.shapes(), "int32" if self._architecture.takes_tokens else self._dtype
        inputs = jax.ShapeDtypeStruct((1, *channels_last(shapes["input"])), kind)

        def check(network: Network, inputs: jax.Array) -> None:
            for name, output in network.outputs(inputs):
                check_shape(self.framework, name, channels_first(output.shape[1:]), shapes[name])

        self._network.eval()
        nnx.eval_shape(check, self._network, inputs)

    def load(self, *, split: str, inputs: np.ndarray | Stream, labels: np.ndarray) -> None:
        """See `adapter.Adapter.load`. The arrays stay on the host; each step moves its batch."""
        self._splits[split] = (
            inputs if isinstance(inputs, Stream) else to_channels_last(inputs),
            labels.astype(np.int32),
        )

    def train_epoch(self, feed: EpochFeed) -> np.ndarray:
        set_rates(self._optimizer, feed.rates)
        self._seed_dropout(feed.dropout_seed)
        self._network.train()
        losses, samples = [], 0
        for inputs, labels in self._batches(feed):
            losses.append(self._training_step(self._network, self._optimizer, inputs, labels))
            samples += len(labels)
        self._counted = {"samples": samples, "batches": len(losses)}
        return fetched(losses)

    def _batches(self, feed: EpochFeed) -> Iterator[tuple[Any, Any]]:
        inputs, labels = self._splits["train"]
        if isinstance(inputs, Stream):
            yield from (
                (to_channels_last(batch), those.astype(np.int32)) for batch, those in inputs.training_batches(feed)
            )
        else:
            yield from feed.batches(inputs, labels)

    def predict(self, split: str) -> np.ndarray:
        self._network.eval()
        network = self._evaluated()
        logits = [evaluation_step(network, inputs) for inputs in self._stored_batches(split)]
        return np.concatenate(jax.device_get(logits))

    def _evaluated(self) -> Network:
        return self._network

    def _stored_batches(self, split: str) -> Iterator[np.ndarray]:
        """Yield the inputs of a split in Flax's layout, see `adapter.evaluation_batches`."""
        inputs = self._splits[split][0]
        batches = evaluation_batches(inputs, self._architecture)
        return map(to_channels_last, batches) if isinstance(inputs, Stream) else batches

    def weights(self) -> Weights:
        """See `adapter.Adapter.weights`. Of an array that is read JAX keeps a copy on the host, but not of its data."""
        return {
            parameter.name: np.array(variable[...].addressable_data(0)) for parameter, variable in self._variables()
        }

    def set_weights(self, weights: Weights) -> None:
        for parameter, variable in self._variables():
            variable.set_value(jax.device_put(weights[parameter.name].astype(self._dtype)))

    def counted(self) -> dict[str, int]:
        return {**self._counted, "updates": int(self._optimizer.step[...])}

    def activations(self, split: str, indices: Sequence[int] | np.ndarray, *, training: bool) -> dict[str, np.ndarray]:
        nodes = self._architecture.nodes if training else self._architecture.inference_nodes()
        names = ["input", *(node.name for node in nodes)]
        (self._network.train if training else self._network.eval)()
        graph, state = nnx.split(self._evaluated())

        @jax.jit
        def outputs(state: nnx.State, inputs: jax.Array) -> list[jax.Array]:
            by_name = dict(nnx.merge(graph, state).outputs(inputs))  # a copy, whose running statistics are dropped
            return [by_name[name] for name in names]

        values = outputs(state, self._splits[split][0][np.asarray(indices)])
        return {name: to_channels_first(np.array(value)) for name, value in zip(names, values, strict=True)}

    def gradients(self) -> Weights:
        gradients = last_gradients(self._optimizer)
        return {
            parameter.name: np.array(gradients[layer_name(parameter.layer)][role_name(parameter)][...])
            for parameter in self._architecture.parameters()
        }

    def slots(self) -> Weights:
        return {name: np.array(variable[...].addressable_data(0)) for name, variable in self._slots()}

    def set_slots(self, slots: Weights, updates: int) -> None:
        for name, variable in self._slots():
            variable.set_value(jax.device_put(slots[name].astype(self._dtype)))
        for path, variable in nnx.to_flat_state(nnx.state(self._optimizer)):
            if path[-1] in ("step", "count"):
                variable.set_value(jax.device_put(np.asarray(updates, variable.dtype)))

    def _slots(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, the optimizer's variable)."""
        slots = dict(zip(STATES[self._rule], SLOTS[self._rule], strict=True))
        names = {(layer_name(one.layer), role_name(one)): one.name for one in self._architecture.parameters()}
        for path, variable in nnx.to_flat_state(nnx.state(self._optimizer)):
            slot, layer, role = map(str, ("", "", *path)[-3:])
            if slot in slots and (layer, role) in names:
                yield f"{names[layer, role]}.{slots[slot]}", variable

    def set_masks(self, masks: Weights) -> None:
        for name, mask in masks.items():
            self._network.layer(name).mask.set_value(jax.device_put(to_channels_last(mask).astype(self._dtype)))

    def state(self) -> dict[str, np.ndarray]:
        leaves = jax.tree.leaves(nnx.state((self._network, self._optimizer), STATE))
        return {f"{i:04d}": np.array(leaf.addressable_data(0)) for i, leaf in enumerate(leaves)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        arrays = (state[name] for name in sorted(state))
        self._update(lambda leaf: next(arrays), STATE)

    def synchronize(self) -> None:
        jax.block_until_ready(nnx.state(self._network, STATE))

    def describe_device(self) -> dict[str, str]:
        (device,) = next(variable for _, variable in self._variables())[...].addressable_data(0).devices()
        if device not in jax_platform.gpus(jax):
            return {"kind": device.platform, "name": "jax"}
        return {"kind": "gpu", "name": jax_platform.gpu_name(jax, device)}

    def device_memory_mib(self) -> float | None:
        if self.describe_device()["kind"] != "gpu":
            return None
        peak_bytes = jax_platform.peak_bytes(jax, jax_platform.gpus(jax)[0])
        return None if peak_bytes is None else peak_bytes / 2**20

    def open_compilation_cache(self, folder: Path) -> Mapping[str, int] | None:
        return jax_platform.open_compilation_cache(jax, folder)

    def matrix_operation(self, operation: str, side: int, times: int) -> Callable[[], object]:
        """See `adapter.Adapter.matrix_operation`. A GPU works in order: the last result is the last to be ready."""
        compute = getattr(jnp, operation)
        matrices = jax.device_put([random_matrix(side, seed) for seed in (1, 2)])

        def work() -> None:
            for _ in range(times):
                result = compute(*matrices)
            result.block_until_ready()

        return work

    def versions(self) -> dict[str, str]:
        return {package: version(package) for package in (*FRAMEWORKS[self.framework]["packages"], "numpy")}

    def _seed_dropout(self, seed: int) -> None:
        """Give each Dropout layer a stream of keys of its own."""
        layers = (self._network.layer(node.name) for node in self._architecture.nodes)
        for i, layer in enumerate(layer for layer in layers if isinstance(layer, nnx.Dropout)):
            layer.rngs.key.set_value(jax.random.wrap_key_data(jax.device_put(np.array([i, seed], np.uint32))))
            layer.rngs.count.set_value(jax.device_put(np.uint32(0)))

    def _variables(self) -> Iterator[tuple[Parameter, Any]]:
        """Yield (architecture parameter, Flax variable) of every array. Flax has the layout of the architecture."""
        for parameter in self._architecture.arrays():
            yield parameter, getattr(self._network.layer(parameter.layer), role_name(parameter), None)

    def _update(self, value: Callable[[Any], np.ndarray], which: Any) -> None:
        """Replace the arrays of network and optimizer in these variables."""
        both = (self._network, self._optimizer)
        nnx.update(both, jax.device_put(jax.tree.map(value, nnx.state(both, which))))
