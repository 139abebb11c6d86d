"""A template of an adapter. Copy it to workflow/scripts/trainmark/frameworks/<library>_adapter.py and fill it in.

Required methods come first, in the order in which a training calls them. Optional ones follow, with their defaults.
`trainmark.frameworks.adapter.Adapter` documents the arguments, return values and errors of each. Run the contract suite
over every adapter with `pytest tests/contract`.
"""

# Import the framework here and nowhere else. Only jobs that train with it import this module.
from trainmark.frameworks.adapter import Adapter

# This table is read without running the module, so it may contain only literals.
# packages: packages that must be importable, the framework's own package first.
# environment: environment variables to set before this module is imported.
FRAMEWORKS = {"my-framework": {"packages": ["my_framework"], "environment": {}}}


def create(framework, threads):
    """Return the adapter of one of FRAMEWORKS, limited to this number of threads."""
    return TemplateAdapter(framework, threads)


class TemplateAdapter(Adapter):
    """An adapter draws only dropout masks; batch order, weights and constants come from outside."""

    # --- required ---------------------------------------------------------------------------------------------------

    def build(self, *, architecture, weights, optimizer, device, dtype, observed_batch=None):
        """Build the network from the nodes of `architecture`, in their order, with these `weights`.

        A table with one entry for each op of networks/ops.py keeps this short (see LAYERS in keras_layers.py). Raise
        DeviceError if the device does not exist. Never fall back to another device.
        """

    def load(self, *, split, inputs, labels):
        """Store a split where the framework trains from. Images are (samples, channels, height, width)."""

    def train_epoch(self, feed):
        """Train on all batches of `feed`, including a shorter last one; return each step's loss before its update.

        First give `feed.rates` to the optimizer: constants of the update rule that have other values in this epoch.
        Without rates nothing changes. A resumed run gets those of its epoch, so that `state` need not have them.
        """

    def predict(self, split):
        """Return the logits of a split in its stored order, without dropout and with running statistics."""

    def weights(self):
        """Return copies of the weights, with the names and layout of `architecture.arrays()`."""

    def set_weights(self, weights):
        """Replace the weights. The optimizer's state stays as it is."""

    def counted(self):
        """Return the framework's own counts: samples and batches of the last epoch, updates since `build`."""

    def activations(self, split, indices, *, training):
        """Return every layer's output for some samples. The parity certificate compares them."""

    def gradients(self):
        """Return the gradients of the last step. The parity certificate compares them."""

    def set_masks(self, masks):
        """Use these masks instead of the framework's own dropout, from the next step on."""

    def state(self):
        """Return everything that the next epoch depends on as numpy arrays, including optimizer and random state."""

    def set_state(self, state):
        """Restore what `state` returned. A resumed run must end equal to the last bit."""

    def synchronize(self):
        """Wait until the device has finished its work. Every run checks that no work is left after this."""

    def describe_device(self):
        """Return the device on which the arrays actually are: {"kind": "cpu" or "gpu", "name": ...}."""

    def versions(self):
        """Return the versions of the packages that train, by name."""

    def device_memory_mib(self):
        """Return the framework's peak GPU memory in MiB; None on the CPU."""

    # --- optional: each has a default that fits most frameworks -----------------------------------------------------

    out_of_memory_texts = {}
    """Out-of-memory exceptions: for each class name, texts of which the message must contain one."""

    float32_ops = ()
    """Ops that the framework computes in float32 even in a float64 network; each is shown by a test."""

    def compile(self, feed):
        """Compile what training needs. The default trains one step of each batch size."""
        return super().compile(feed)

    def open_compilation_cache(self, folder):
        """Take compiled programs from a folder and leave new ones there; return the counts of hits and misses."""
        return super().open_compilation_cache(folder)

    def thread_pools(self):
        """Return the framework's own thread pools, if it reports them."""
        return super().thread_pools()

    def matrix_operation(self, operation, side, times):
        """Return a function that computes a matrix product or a sum, to measure the peak of the run's device.

        The default computes with numpy on the CPU, and returns None on a GPU: its records then hold no peak.
        """
        return super().matrix_operation(operation, side, times)
