"""Networks of torch.nn.Module become graphs that compute the same, or a sentence says which module can't be said."""

import ast
import copy
import random
import re
from unittest import mock

import pytest

torch = pytest.importorskip("torch")
from imported_models import MODELS  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from unsayable import UNSAYABLE  # noqa: E402

from trainmark.errors import ConfigError  # noqa: E402
from trainmark.importing import rules  # noqa: E402
from trainmark.importing.network import SAMPLES, Builder, traced  # noqa: E402
from trainmark.importing.proof import TOLERANCE, prove  # noqa: E402
from trainmark.importing.writing import network_file  # noqa: E402

IMAGE = (3, 8, 8)


def imported(module, input_shape=IMAGE, inputs=None):
    """The imported network and the largest difference from the module."""
    inputs, module = torch.randn(SAMPLES, *input_shape) if inputs is None else inputs, copy.deepcopy(module)
    network = Builder(traced(module, inputs), input_shape).build("it")
    return network, prove(network, module, inputs)


def said(module, **others):
    """What is said of a module that can't be imported."""
    with pytest.raises(ConfigError) as error:
        imported(module, **others)
    return str(error.value)


LARGE = ("densenet121", "mobilenet_v2", "resnet50", "vgg11")


@pytest.mark.parametrize("name", [pytest.param(one, marks=[pytest.mark.slow] * (one in LARGE)) for one in MODELS])
def test_a_small_network_of_a_paper_is_the_same(name):
    torch.manual_seed(1)
    module = MODELS[name].make(**MODELS[name].small)
    network, difference = imported(module, MODELS[name].small_input)
    assert difference < TOLERANCE
    assert network.architecture.parameter_count() == sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parity
@pytest.mark.parametrize("name", MODELS)
def test_a_network_of_a_paper_has_its_parameters_and_is_the_same(name):
    torch.manual_seed(1)
    network, difference = imported(MODELS[name].make(), MODELS[name].input_shape)
    assert network.architecture.parameter_count() == MODELS[name].parameters
    assert difference < TOLERANCE
    print(f"{name}: {MODELS[name].parameters:,} parameters, largest difference {difference:.1e}")


WORDS = {
    "a loop over data": "line 18: PyTorch can't trace the module: what it computes next depends on values",
    "a branch on a tensor's value": "line 33: PyTorch can't trace the module: what it computes next depends on values",
    "an in-place assignment to a view": "changes a tensor in place through a view",
    "a gradient of its own": "sign is computed by no layer",
    "a layer used twice": "shared (Linear): linear uses shared.weight, as shared does",
    "a tied parameter": "layers share no arrays",
    "an LSTM": "lstm (LSTM): lstm is computed by no layer",
    "a dilated convolution": "conv (Conv2d): conv2d has a dilation of [2, 2]; allowed: 1",
    "a rectangular kernel": "a window of 3 x 1; allowed: one number for all sides",
    "a transposed convolution": "conv_transpose2d is computed by no layer",
    "bilinear upsampling": "upsample_bilinear2d is computed by no layer",
    "batch normalization without running statistics": "bn (BatchNorm2d): batch_norm has no moving_mean of its own",
    "random noise": "randn_like is computed by no layer",
    "dropout inside attention": "drops shares of attention; set its dropout to 0",
    "two outputs": "a network returns its logits alone",
    "top k": "topk is computed by no layer",
    "a Fourier transform": "fft_rfft2 is computed by no layer",
}


@pytest.mark.parametrize("name", UNSAYABLE)
def test_what_no_layer_computes_is_named_with_its_line(name):
    sentence = said(UNSAYABLE[name]())
    assert WORDS[name] in sentence
    assert name == "two outputs" or re.match(r"unsayable.py, line \d+", sentence)
    assert "\n" not in sentence


class Wrapped(nn.Module):
    """A function of the image, between a convolution and a dense layer."""

    def __init__(self, function, units=8, *modules):
        super().__init__()
        self.conv, self.fc, self.function = nn.Conv2d(3, 8, 3, padding=1), nn.Linear(units, 4), function
        self.inner = nn.Sequential(*modules)

    def forward(self, x):
        return self.fc(self.function(self, self.conv(x)))


class Backward(torch.autograd.Function):
    """ReLU whose gradient is twice as large."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.relu()

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient * (ctx.saved_tensors[0] > 0)


def zeroed(module):
    nn.init.zeros_(module.fc.weight)
    return module


def hooked():
    module = Wrapped(lambda it, x: x.mean((2, 3)))
    module.conv.weight.register_hook(lambda gradient: gradient * 0)
    return module


def tied():
    module = Wrapped(lambda it, x: it.inner(x).mean((2, 3)), 8)
    module.inner = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1))
    module.inner[0].weight.data = module.inner[1].weight.data
    return module


class Counting(nn.Module):
    """Dropout whose rate grows from step to step."""

    def __init__(self):
        super().__init__()
        self.dropout, self.fc = nn.Dropout(0.0), nn.Linear(192, 3)

    def forward(self, x):
        self.dropout.p += 0.1
        return self.fc(self.dropout(x.flatten(1)))


HIDDEN = {
    "a backward pass of its own": (
        lambda: zeroed(Wrapped(lambda it, x: Backward.apply(x).mean((2, 3)))),
        "the gradient of conv.bias is another one than that of the layer conv",
    ),
    "a hook of a gradient": (hooked, "the gradient of conv.weight is another one"),
    "other layers in evaluation": (
        lambda: zeroed(Wrapped(lambda it, x: (x.relu() if it.training else x.tanh()).mean((2, 3)))),
        "in eval mode the module computes other layers than in training",
    ),
    "dropout in evaluation": (
        lambda: zeroed(Wrapped(lambda it, x: F.dropout(x, 0.5).mean((2, 3)))),
        "in eval mode the module drops at the rates [0.5], and not always at []",
    ),
    "a rate that changes": (Counting, "the module drops at the rates [0.2], and not always at [0.1]"),
    "random layers": (
        lambda: Wrapped(lambda it, x: (x.relu() if random.random() < 0.9 else x).mean((2, 3))),
        "the module draws random numbers",
    ),
    "a random factor": (
        lambda: Wrapped(lambda it, x: (x * torch.bernoulli(torch.tensor(0.9))).mean((2, 3))),
        "aten.bernoulli.default draws random numbers",
    ),
    "layers by the number of samples": (
        lambda: Wrapped(lambda it, x: (x.relu() if len(x) <= SAMPLES else x).mean((2, 3))),
        "computes other values in a second step, or of another number of samples",
    ),
    "memory that two parameters share": (tied, "inner.0.weight and inner.1.weight have the same memory"),
    "a parameter without use": (
        lambda: Wrapped(lambda it, x: x.mean((2, 3)), 8, nn.Linear(2, 2)), "inner.0.weight takes no part in the output",
    ),
    "a part without gradients": (
        lambda: Wrapped(lambda it, x: torch.no_grad()(torch.relu)(x).mean((2, 3))), "under torch.no_grad",
    ),
    "frozen parameters": (lambda: Wrapped(lambda it, x: x.mean((2, 3))).requires_grad_(False), "not trained"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda it, x: x.permute(0, 2, 3, 1).flatten(1), "the output of the module takes an image or a sequence"),
        (lambda it, x: x[:, :, 0, ::2].flatten(1), "the output of the module takes a part"),
        (lambda it, x: x.view(torch.int32).view(torch.float32).mean((2, 3)), "is used in a way that no layer has"),
    ],
)
def test_an_output_and_views_that_no_layer_gives_are_one_sentence(function, words):
    module = Wrapped(function)
    module.fc = nn.Identity()
    assert words in said(module)


@pytest.mark.parametrize("name", HIDDEN)
def test_what_a_trace_hides_is_refused(name):
    make, words = HIDDEN[name]
    with pytest.raises(ConfigError) as error:
        module, inputs = make(), torch.randn(SAMPLES, *IMAGE)
        prove(Builder(traced(module, inputs), IMAGE).build("it"), module, inputs)
    assert words in str(error.value)


def attended(it, x, causal=False):
    """Attention whose queries, keys and values are parts of one product, in four heads."""
    tokens = x.flatten(2).transpose(1, 2)
    query, key, value = it.inner[0](tokens).view(len(x), -1, 3, 4, 2).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(query, key, value, is_causal=causal)
    return attended.transpose(1, 2).reshape(len(x), -1, 8)


def by_hand(it, x):
    """The same by products of matrices, as before PyTorch 2."""
    tokens = x.flatten(2).transpose(1, 2)
    query, key, value = (part.view(len(x), -1, 4, 2).transpose(1, 2) for part in it.inner[0](tokens).chunk(3, dim=-1))
    shares = (query @ key.transpose(-2, -1) / 2**0.5).softmax(dim=-1)
    return (shares @ value).transpose(1, 2).flatten(2).mean(1)


def squeezed(it, x):
    """Channels that are multiplied by what their means give."""
    gates = torch.sigmoid(it.inner[0](x.mean((2, 3), keepdim=True)))
    return F.adaptive_avg_pool2d(x * gates.expand_as(x), 1)


IDIOMS = {
    "fused attention": Wrapped(lambda it, x: attended(it, x)[:, -1], 8, nn.Linear(8, 24)),
    "causal attention": Wrapped(lambda it, x: attended(it, x, causal=True).mean(1), 8, nn.Linear(8, 24)),
    "attention by hand": Wrapped(by_hand, 8, nn.Linear(8, 24)),
    "attention of PyTorch, with its shares": Wrapped(
        lambda it, x: it.inner[0](*[x.flatten(2).transpose(1, 2)] * 3)[0].mean(1), 8,
        nn.MultiheadAttention(8, 2, batch_first=True),
    ),
    "squeeze and excitation": Wrapped(lambda it, x: squeezed(it, x).flatten(1), 8, nn.Conv2d(8, 8, 1)),
    "a sum that begins with 0": Wrapped(lambda it, x: sum([x.clamp(min=0), x.clamp(0, 6)]).mean((2, 3))),
    "flattened, then normalised": Wrapped(lambda it, x: it.inner[0](x.flatten(1)), 512, nn.BatchNorm1d(512)),
    "channels last, flattened": Wrapped(lambda it, x: x.permute(0, 2, 3, 1).flatten(1), 512),
    "a sequence": Wrapped(
        lambda it, x: it.inner(x.flatten(2)).amax(-1), 6, nn.GroupNorm(2, 8), nn.Conv1d(8, 6, 3, padding="same"),
    ),
    "dropout by another name": Wrapped(lambda it, x: torch.dropout(x, 0.3, it.training).mean((2, 3))),
    "halves of channels": Wrapped(lambda it, x: torch.mul(*x.chunk(2, 1)).mean((2, 3)), 4),
    "log-softmax": nn.Sequential(nn.Flatten(), nn.Linear(192, 5), nn.LogSoftmax(1)),
    "in place": Wrapped(lambda it, x: F.relu6(x, inplace=True).add_(x).flatten(1), 512),
    "groups": Wrapped(lambda it, x: F.silu(it.inner[0](x)).mean([-1, -2]), 8, nn.GroupNorm(4, 8)),
    "channels last": Wrapped(
        lambda it, x: F.gelu(it.inner[0](x.permute(0, 2, 3, 1)), approximate="tanh").permute(0, 3, 1, 2).flatten(1),
        512,
        nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IDIOMS)
def test_what_people_write_is_the_same(name):
    assert imported(IDIOMS[name])[1] < TOLERANCE


def test_one_logit_becomes_the_two_of_a_softmax():
    network, difference = imported(nn.Sequential(nn.Flatten(), nn.Linear(192, 1)))
    assert difference < TOLERANCE
    assert network.architecture.shapes()["binary_logits"] == (2,)


def test_token_ids_and_positions():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.fc = nn.Embedding(11, 6), nn.Embedding(7, 6), nn.Linear(6, 2)

        def forward(self, ids):
            return self.fc((self.words(ids) + self.places(torch.arange(7))).mean(1))

    network, difference = imported(Words(), (7,), torch.randint(0, 11, (SAMPLES, 7)))
    assert difference < TOLERANCE
    assert [node.op for node in network.architecture.nodes] == [
        "Embedding", "PositionEmbedding", "GlobalAvgPool1D", "Dense",
    ]  # fmt: skip
    assert "vocabulary_size=11" in network_file(network.architecture, "a test")


def changed(rule, op, **attributes):
    """A rule that gives the layer of an op other attributes."""

    def faulty(net, *arguments, **named):
        true = net.add
        with mock.patch.object(net, "add", lambda kind, *inputs, **own: true(
            kind, *inputs, **own | (attributes if kind == op else {})
        )):  # fmt: skip
            return rule(net, *arguments, **named)

    return faulty


def of_itself(x):
    """Attention of the positions of an image to each other, as an image."""
    tokens = x.flatten(2).transpose(1, 2)
    return F.scaled_dot_product_attention(tokens, tokens, tokens).transpose(1, 2).view(x.shape)


NORMED = nn.BatchNorm2d(8), nn.LayerNorm(8), nn.GroupNorm(2, 8)
FAULTS = {
    "epsilon": ("batch_norm", "BatchNorm", {"epsilon": 1e-3}, lambda it, x: it.inner[0](x)),
    "decay": ("batch_norm", "BatchNorm", {"decay": 0.8}, lambda it, x: it.inner[0](x)),
    "groups": ("group_norm", "GroupNorm", {"groups": 4}, lambda it, x: it.inner[2](x)),
    "tanh": ("gelu", "GELU", {"approximate": 1}, lambda it, x: F.gelu(x)),
    "ceil": ("max_pool2d", "MaxPool2D", {"ceil": 1}, lambda it, x: F.max_pool2d(x, 3, 2)),
    "padding": ("avg_pool2d", "AvgPool2D", {"padding": 1}, lambda it, x: F.avg_pool2d(x, 3, 2)),
    "layers": (
        "layer_norm", "LayerNorm", {"epsilon": 1e-3},
        lambda it, x: it.inner[1](x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
    ),
    "neighbours": ("local_response_norm", "LRN", {"n": 3}, lambda it, x: F.local_response_norm(x, 5, 0.1)),
    "heads": ("scaled_dot_product_attention", "Attention", {"heads": 2}, lambda it, x: of_itself(x)),
    "causal": ("scaled_dot_product_attention", "Attention", {"causal": 1}, lambda it, x: of_itself(x)),
    "rate": ("dropout", "Dropout", {"rate": 0.2}, lambda it, x: F.dropout(x, 0.5, it.training)),
    "channels": ("cat", "SliceChannels", {"start": 0, "stop": 4}, lambda it, x: torch.cat(x.chunk(2, 1), 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_rule_is_found_at_its_module(name):
    operation, op, attributes, function = FAULTS[name]
    used = {"batch_norm": 0, "layer_norm": 1, "group_norm": 2}.get(operation)
    inner = [one if i == used else nn.Identity() for i, one in enumerate(NORMED)]
    module = Wrapped(lambda it, x: function(it, x).mean((2, 3)), 8, *inner)
    assert imported(module)[1] < TOLERANCE
    with mock.patch.dict(rules.RULES, {operation: changed(rules.RULES[operation], op, **attributes)}):
        sentence = said(module)
    words = {"decay": "running statistics of inner.0", "ceil": "gives another shape than the layer"}
    words |= {"padding": words["ceil"], "rate": "drops at the rates [0.5], and not always at [0.2]"}
    assert words.get(name, "computes other values than the module") in sentence
    assert name in ("decay", "rate") or re.match(r"test_imports.py, line \d+", sentence)


SWAPPED = {
    "silu": ("sigmoid", lambda it, x: F.silu(x)),
    "sigmoid": ("tanh", lambda it, x: x.sigmoid()),
    "tanh": ("silu", lambda it, x: x.tanh()),
    "relu6": ("relu", lambda it, x: F.relu6(x)),
    "softmax": ("gelu", lambda it, x: x.softmax(1)),
    "mul": ("add", lambda it, x: x * x),
    "add": ("mul", lambda it, x: x + x),
}  # fmt: skip


@pytest.mark.parametrize("name", SWAPPED)
def test_a_rule_of_another_operation_is_found_at_its_line(name):
    other, function = SWAPPED[name]
    module = Wrapped(lambda it, x: function(it, x).mean((2, 3)))
    module.conv.weight.data *= 20  # beyond 6
    with mock.patch.dict(
        rules.RULES, {name: lambda net, x, *others: rules.RULES[other](net, x, *others[: other in ("add", "mul")])}
    ):
        assert re.match(r"test_imports.py, line \d+.* computes other values than the module", said(module))


def test_the_file_holds_the_network():
    torch.manual_seed(1)
    module = nn.Sequential(nn.Conv2d(3, 40, 3), nn.BatchNorm2d(40), nn.ReLU(), nn.Flatten(), nn.Linear(1440, 4))
    network, _ = imported(module)
    text = network_file(network.architecture, "my_model.py:make")
    ast.parse(text)
    values = {}
    exec(compile(text, "it_network.py", "exec"), values)
    recipe = values["RECIPE"]
    assert recipe.architecture(IMAGE, 4) == network.architecture
