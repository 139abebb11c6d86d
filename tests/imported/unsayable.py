"""Small torch modules that no graph of standard feed-forward layers can express, each for images of shape (3, 8, 8)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PIXELS = 3 * 8 * 8


class DataLoop(nn.Module):
    """How often a layer is applied depends on the data."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(PIXELS, 10)

    def forward(self, x):
        while x.sum() > 0:
            x = x - 0.5
        return self.fc(x.flatten(1))


class DataBranch(nn.Module):
    """Which layer is applied depends on the data."""

    def __init__(self):
        super().__init__()
        self.bright = nn.Linear(PIXELS, 10)
        self.dark = nn.Linear(PIXELS, 10)

    def forward(self, x):
        x = x.flatten(1)
        if x.mean() > 0:
            return self.bright(x)
        return self.dark(x)


class ViewAssignment(nn.Module):
    """A channel is overwritten in place."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        x = self.conv(x)
        x[:, 0] = 0
        return self.fc(x.flatten(1))


class Sign(torch.autograd.Function):
    """The sign, with the gradient of the identity."""

    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad


class StraightThrough(nn.Module):
    """A gradient that is not the derivative."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        return self.fc2(Sign.apply(self.fc1(x.flatten(1))))


class SharedLayer(nn.Module):
    """One layer is applied twice."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 16)
        self.shared = nn.Linear(16, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.shared(x))
        x = F.relu(self.shared(x))
        return self.fc2(x)


class TiedParameter(nn.Module):
    """Two layers have one weight."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 16)
        self.fc2 = nn.Linear(16, 16)
        self.fc3 = nn.Linear(16, 16)
        self.fc3.weight = self.fc2.weight
        self.fc4 = nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc3(F.relu(self.fc2(x))))
        return self.fc4(x)


class Recurrent(nn.Module):
    """An LSTM reads the rows."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3 * 8, 16, batch_first=True)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):
        rows, _ = self.lstm(x.transpose(1, 2).flatten(2))
        return self.fc(rows[:, -1])


class Dilated(nn.Module):
    """A convolution with gaps."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, dilation=2)
        self.fc = nn.Linear(4 * 4 * 4, 10)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


class Rectangular(nn.Module):
    """A convolution whose kernel is no square."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, (3, 1), padding=(1, 0))
        self.fc = nn.Linear(4 * 8 * 8, 10)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


class Transposed(nn.Module):
    """A convolution that makes the image larger."""

    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(3, 4, 2, stride=2)
        self.fc = nn.Linear(4 * 16 * 16, 10)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).flatten(1))


class Upsampled(nn.Module):
    """The image is interpolated."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 16 * 16, 10)

    def forward(self, x):
        x = F.interpolate(F.relu(self.conv(x)), scale_factor=2, mode="bilinear", align_corners=False)
        return self.fc(x.flatten(1))


class BatchStatistics(nn.Module):
    """A batch normalization that has no running statistics, so predictions depend on the batch."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.bn = nn.BatchNorm2d(4, track_running_stats=False)
        self.fc = nn.Linear(4 * 6 * 6, 10)

    def forward(self, x):
        return self.fc(F.relu(self.bn(self.conv(x))).flatten(1))


class Noise(nn.Module):
    """Random numbers are added."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(PIXELS, 10)

    def forward(self, x):
        x = x + 0.1 * torch.randn_like(x)
        return self.fc(x.flatten(1))


class AttentionDropout(nn.Module):
    """Weights of attention are dropped."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(3, 3 * 8)
        self.fc = nn.Linear(8, 10)

    def forward(self, x):
        q, k, v = self.qkv(x.flatten(2).transpose(1, 2)).chunk(3, dim=-1)
        x = F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        return self.fc(x.mean(1))


class TwoOutputs(nn.Module):
    """Logits and features are returned."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 16)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        features = F.relu(self.fc1(x.flatten(1)))
        return self.fc2(features), features


class TopK(nn.Module):
    """The largest values are chosen and sorted."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(PIXELS, 32)
        self.fc2 = nn.Linear(16, 10)

    def forward(self, x):
        values, _ = torch.topk(self.fc1(x.flatten(1)), 16, dim=1)
        return self.fc2(values)


class Fourier(nn.Module):
    """The spectrum of the image is classified."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3 * 8 * 5, 10)

    def forward(self, x):
        return self.fc(torch.fft.rfft2(x).abs().flatten(1))


UNSAYABLE = {
    "a loop over data": DataLoop,
    "a branch on a tensor's value": DataBranch,
    "an in-place assignment to a view": ViewAssignment,
    "a gradient of its own": StraightThrough,
    "a layer used twice": SharedLayer,
    "a tied parameter": TiedParameter,
    "an LSTM": Recurrent,
    "a dilated convolution": Dilated,
    "a rectangular kernel": Rectangular,
    "a transposed convolution": Transposed,
    "bilinear upsampling": Upsampled,
    "batch normalization without running statistics": BatchStatistics,
    "random noise": Noise,
    "dropout inside attention": AttentionDropout,
    "two outputs": TwoOutputs,
    "top k": TopK,
    "a Fourier transform": Fourier,
}
