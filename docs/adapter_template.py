"""A template of an adapter: copy it to workflow/scripts/trainmark/frameworks/<library>_adapter.py and fill it in.

Required methods come first, in the order in which a training calls them; optional ones follow, with their defaults.
`trainmark.frameworks.adapter.Adapter` says of each what it takes, returns and raises. `pytest tests/contract` runs the
contract suite over every adapter that it finds.
"""

# Import the framework here and nowhere else: this module is imported by the job that trains with it, and by no other.
from trainmark.frameworks.adapter import Adapter

# Read without being run, so only literals. packages: what must be importable, the framework's own package first.
# environment: variables that are set before this module is imported.
FRAMEWORKS = {"my-framework": {"packages": ["my_framework"], "environment": {}}}


def create(framework, threads):
    """Return the adapter of one of FRAMEWORKS, which computes with so many threads."""
    return TemplateAdapter(framework, threads)


class TemplateAdapter(Adapter):
    """Every batch order, weight and constant comes from outside: an adapter draws nothing but dropout masks."""

    # --- required ---------------------------------------------------------------------------------------------------

    def build(self, *, architecture, weights, optimizer, device, dtype, observed_batch=None):
        """Build the network from the nodes of `architecture`, in their order, and put `weights` in.

        A table of ops (as LAYERS in keras_layers.py) keeps this short: one entry for each type in networks/ops.py.
        Raise DeviceError if `device` is not there. Never fall back to another device.
        """

    def load(self, *, split, inputs, labels):
        """Keep a split where the framework trains from. Images come as (samples, channels, height, width)."""

    def train_epoch(self, feed):
        """Train on the batches of `feed`, the last and shorter one too; return each step's loss before its update."""

    def predict(self, split):
        """Return the logits of a split in its stored order, with dropout off and with running statistics."""

    def weights(self):
        """Return copies of the weights, in the names and layout of `architecture.arrays()`."""

    def set_weights(self, weights):
        """Put these weights in, and leave the optimizer's state."""

    def counted(self):
        """Return what the framework counted: samples and batches of the last epoch, updates since `build`."""

    def activations(self, split, indices, *, training):
        """Return every layer's output for some samples: what the parity certificate compares first."""

    def gradients(self):
        """Return the gradients of the last step."""

    def set_masks(self, masks):
        """Multiply by these masks in place of the framework's own dropout, from the next step on."""

    def state(self):
        """Return all that the next epoch depends on, as numpy arrays: optimizer state and random state included."""

    def set_state(self, state):
        """Put back what `state` returned: a run that goes on from a checkpoint must end equal to the last bit."""

    def synchronize(self):
        """Wait until the device has done its work. Every run checks that the clock stops after this, and not before."""

    def describe_device(self):
        """Return where the arrays really lie: {"kind": "cpu" or "gpu", "name": ...}."""

    def versions(self):
        """Return the versions of the packages that train, by name."""

    def device_memory_mib(self):
        """Return the peak of the GPU memory that the framework held; None on the CPU."""

    # --- optional: each has a default that fits most frameworks -----------------------------------------------------

    out_of_memory_texts = {}
    """By the name of an exception's class, the texts of which one must be in its message: memory ran out."""

    float32_ops = ()
    """Ops that the framework computes in float32 in a network of float64, each shown by a test."""

    def compile(self, feed):
        """Compile ahead what training will call. The default trains one step of each batch size."""
        return super().compile(feed)

    def thread_pools(self):
        """Return the framework's own thread pools, where it tells."""
        return super().thread_pools()
