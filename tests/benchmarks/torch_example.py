"""The example of torch's documentation, without trainmark. `loops.py` runs beside it.

The loop is that of examples/mnist/main.py of PyTorch: a DataLoader that shuffles, and for each batch forward pass,
cross entropy, backward pass and a step of the optimizer. The optimizer is the recipe's, with torch's constants.
ResNet-50 is as in torchvision: a stride is in the second convolution of a block, and convolutions have no bias.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Sentiment(nn.Module):
    """The convolution over word vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5000, 50)
        self.convolution = nn.Conv1d(50, 250, 3)
        self.hidden = nn.Linear(250, 250)
        self.last = nn.Linear(250, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the logits."""
        x = F.dropout(self.embedding(x), 0.2, self.training).transpose(1, 2)
        x = F.relu(self.convolution(x)).max(2).values
        return self.last(F.relu(F.dropout(self.hidden(x), 0.2, self.training)))


def _convolution(inputs: int, filters: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, filters, size, stride, size // 2, bias=False), nn.BatchNorm2d(filters)]


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut, which is one convolution if the shape changes."""

    def __init__(self, inputs: int, filters: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            *_convolution(inputs, filters, 1), nn.ReLU(inplace=True),
            *_convolution(filters, filters, 3, stride), nn.ReLU(inplace=True),
            *_convolution(filters, 4 * filters, 1),
        )  # fmt: skip
        same = inputs == 4 * filters
        self.shortcut = nn.Identity() if same else nn.Sequential(*_convolution(inputs, 4 * filters, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the block."""
        return F.relu(self.residual(x) + self.shortcut(x), inplace=True)


def _resnet50() -> nn.Module:
    layers = [*_convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for filters, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, filters, 2 if block == 0 and filters > 64 else 1))
            inputs = 4 * filters
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


def _mlp(*units: int, dropout: float = 0.0) -> nn.Module:
    layers, inputs = [nn.Flatten()], 784
    for count in units:
        layers += [nn.Linear(inputs, count), nn.ReLU(), *([nn.Dropout(dropout)] if dropout else [])]
        inputs = count
    return nn.Sequential(*layers, nn.Linear(inputs, 10))


MODELS = {
    "mnist-mlp-chainer": lambda: _mlp(1000, 1000),
    "mnist-mlp-keras": lambda: _mlp(512, 512, dropout=0.2),
    "mnist-mlp-flux": lambda: _mlp(32),
    "imdb-cnn": Sentiment,
    "imagenet-resnet50": _resnet50,
}

OPTIMIZERS = {
    "mnist-mlp-keras": lambda weights: optim.RMSprop(weights, lr=1e-3, alpha=0.9),
    "imagenet-resnet50": lambda weights: optim.SGD(weights, lr=0.01, momentum=0.9),
}
"""The optimizer of a recipe, if it is not Adam."""


def torch_trainer(
    recipe: str, inputs: np.ndarray, labels: np.ndarray, batch_size: int, shares: bool = False, how: str = "example"
) -> Callable[[], None]:
    """Return a function that trains one epoch with torch.

    shares: whether these are the samples of one of several workers, as in torch's tutorial of DistributedDataParallel.
    how: "compiled" compiles the model, as in "Introduction to torch.compile"; "bfloat16" trains on a GPU by autocast
        with channels last, as in torch's "Performance Tuning Guide". Any other word changes nothing.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layout = torch.channels_last if how == "bfloat16" else torch.preserve_format
    model = MODELS[recipe]().to(device, memory_format=layout)
    model = torch.compile(model) if how == "compiled" else model
    model = nn.parallel.DistributedDataParallel(model) if shares else model
    optimizer = OPTIMIZERS.get(recipe, optim.Adam)(model.parameters())
    dataset = TensorDataset(torch.from_numpy(inputs), torch.from_numpy(labels.astype(np.int64)))
    on_gpu = {"num_workers": 1, "pin_memory": True, "persistent_workers": True} if device.type == "cuda" else {}
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, **on_gpu)  # as the example does there

    def train() -> None:
        model.train()
        for data, target in loader:
            data, target = data.to(device, memory_format=layout), target.to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.bfloat16, enabled=how == "bfloat16"):
                loss = F.cross_entropy(model(data), target)
            loss.backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    return train
