"""Ten networks for image classification as users write them in PyTorch, and their published sizes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F


class MLP(nn.Module):
    """Two hidden layers with dropout, after Srivastava et al. 2014, "Dropout"."""

    def __init__(self, hidden=512, classes=10):
        super().__init__()
        self.fc1 = nn.Linear(28 * 28, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        x = x.view(x.size(0), -1)
        x = self.dropout(F.relu(self.fc1(x)))
        x = self.dropout(F.relu(self.fc2(x)))
        return self.fc3(x)


class LeNet5(nn.Module):
    """LeCun et al. 1998, "Gradient-based learning applied to document recognition"."""

    def __init__(self, classes=10):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)
        )
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = self.features(x)
        x = x.view(-1, 16 * 5 * 5)
        x = torch.tanh(self.fc1(x))
        x = torch.tanh(self.fc2(x))
        return self.fc3(x)


class AlexNet(nn.Module):
    """Krizhevsky et al. 2012, "ImageNet classification with deep convolutional neural networks"."""

    def __init__(self, side=227, hidden=4096, classes=1000):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 96, kernel_size=11, stride=4)
        self.conv2 = nn.Conv2d(96, 256, kernel_size=5, padding=2, groups=2)
        self.conv3 = nn.Conv2d(256, 384, kernel_size=3, padding=1)
        self.conv4 = nn.Conv2d(384, 384, kernel_size=3, padding=1, groups=2)
        self.conv5 = nn.Conv2d(384, 256, kernel_size=3, padding=1, groups=2)
        self.norm = nn.LocalResponseNorm(5, alpha=5e-4, beta=0.75, k=2.0)  # torch divides alpha by 5
        self.pool = nn.MaxPool2d(kernel_size=3, stride=2)
        side = ((side - 11) // 4 - 6) // 8  # of the last pool's output
        self.fc6, self.drop6 = nn.Linear(256 * side * side, hidden), nn.Dropout(p=0.5)
        self.fc7, self.drop7 = nn.Linear(hidden, hidden), nn.Dropout(p=0.5)
        self.fc8 = nn.Linear(hidden, classes)

    def forward(self, x):
        x = self.pool(self.norm(F.relu(self.conv1(x))))
        x = self.pool(self.norm(F.relu(self.conv2(x))))
        x = F.relu(self.conv4(F.relu(self.conv3(x))))
        x = self.pool(F.relu(self.conv5(x)))
        x = torch.flatten(x, 1)
        x = self.drop6(F.relu(self.fc6(x)))
        x = self.drop7(F.relu(self.fc7(x)))
        return self.fc8(x)


class VGG(nn.Module):
    """Simonyan and Zisserman 2014, "Very deep convolutional networks for large-scale image recognition"."""

    def __init__(self, plan, side=224, width=64, hidden=4096, classes=1000):
        super().__init__()
        layers, channels = [], 3
        for entry in plan:
            if entry == "M":
                layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
            else:
                layers += [nn.Conv2d(channels, entry * width, kernel_size=3, padding=1), nn.ReLU(inplace=True)]
                channels = entry * width
        self.features = nn.Sequential(*layers)
        fc6 = [nn.Linear(channels * (side // 32) ** 2, hidden), nn.ReLU(inplace=True), nn.Dropout()]
        fc7 = [nn.Linear(hidden, hidden), nn.ReLU(inplace=True), nn.Dropout()]
        self.classifier = nn.Sequential(*fc6, *fc7, nn.Linear(hidden, classes))

    def forward(self, x):
        x = self.features(x)
        x = x.flatten(start_dim=1)
        return self.classifier(x)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He et al. 2015)."""

    expansion = 1

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions and a shortcut; the first one has the stride (He et al. 2015)."""

    expansion = 4

    def __init__(self, inplanes, planes, stride=1, downsample=None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, stride=stride, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """He et al. 2015, "Deep residual learning for image recognition"."""

    def __init__(self, block, depths, width=64, classes=1000):
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, width, depths[0])
        self.layer2 = self._make_layer(block, width * 2, depths[1], stride=2)
        self.layer3 = self._make_layer(block, width * 4, depths[2], stride=2)
        self.layer4 = self._make_layer(block, width * 8, depths[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(width * 8 * block.expansion, classes)

    def _make_layer(self, block, planes, depth, stride=1):
        downsample = None
        outplanes = planes * block.expansion
        if stride != 1 or self.inplanes != outplanes:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, outplanes, 1, stride=stride, bias=False), nn.BatchNorm2d(outplanes)
            )
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = outplanes
        layers += [block(outplanes, planes) for _ in range(1, depth)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        x = self.avgpool(x)
        x = torch.flatten(x, 1)
        return self.fc(x)


def conv_bn_relu(inp, oup, kernel=3, stride=1, groups=1):
    """A convolution, batch normalization and ReLU6 (Sandler et al. 2018)."""
    conv = nn.Conv2d(inp, oup, kernel, stride, (kernel - 1) // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(oup), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Expansion, depthwise convolution, linear projection (Sandler et al. 2018)."""

    def __init__(self, inp, oup, stride, expand):
        super().__init__()
        hidden = inp * expand
        self.use_res = stride == 1 and inp == oup
        layers = [] if expand == 1 else [conv_bn_relu(inp, hidden, kernel=1)]
        layers.append(conv_bn_relu(hidden, hidden, stride=stride, groups=hidden))
        layers += [nn.Conv2d(hidden, oup, 1, bias=False), nn.BatchNorm2d(oup)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        if self.use_res:
            return x + self.conv(x)
        return self.conv(x)


class MobileNetV2(nn.Module):
    """Sandler et al. 2018, "MobileNetV2: Inverted residuals and linear bottlenecks"."""

    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self, width=1.0, last=1280, classes=1000):
        super().__init__()
        inp = int(32 * width)
        features = [conv_bn_relu(3, inp, stride=2)]
        for expand, channels, repeats, stride in self.plan:
            oup = int(channels * width)
            for i in range(repeats):
                features.append(InvertedResidual(inp, oup, stride if i == 0 else 1, expand))
                inp = oup
        features.append(conv_bn_relu(inp, last, kernel=1))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(last, classes))

    def forward(self, x):
        x = self.features(x)
        x = x.mean([2, 3])
        return self.classifier(x)


class DenseLayer(nn.Module):
    """A layer that sees the features of all layers before it (Huang et al. 2016)."""

    def __init__(self, channels, growth):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, 4 * growth, kernel_size=1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, kernel_size=3, padding=1, bias=False)

    def forward(self, features):
        x = torch.cat(features, 1)
        x = self.conv1(F.relu(self.norm1(x)))
        return self.conv2(F.relu(self.norm2(x)))


class DenseBlock(nn.Module):
    """Layers whose outputs are collected (Huang et al. 2016)."""

    def __init__(self, depth, channels, growth):
        super().__init__()
        self.layers = nn.ModuleList([DenseLayer(channels + i * growth, growth) for i in range(depth)])

    def forward(self, x):
        features = [x]
        for layer in self.layers:
            features.append(layer(features))
        return torch.cat(features, dim=1)


class DenseNet(nn.Module):
    """Huang et al. 2016, "Densely connected convolutional networks"."""

    def __init__(self, depths=(6, 12, 24, 16), growth=32, classes=1000):
        super().__init__()
        channels = 2 * growth
        self.conv0 = nn.Conv2d(3, channels, kernel_size=7, stride=2, padding=3, bias=False)
        self.norm0 = nn.BatchNorm2d(channels)
        blocks = []
        for i, depth in enumerate(depths):
            blocks.append(DenseBlock(depth, channels, growth))
            channels += depth * growth
            if i < len(depths) - 1:
                conv = nn.Conv2d(channels, channels // 2, kernel_size=1, bias=False)
                blocks.append(nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(inplace=True), conv, nn.AvgPool2d(2)))
                channels //= 2
        self.blocks = nn.Sequential(*blocks)
        self.norm5 = nn.BatchNorm2d(channels)
        self.classifier = nn.Linear(channels, classes)

    def forward(self, x):
        x = F.relu(self.norm0(self.conv0(x)), inplace=True)
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        x = F.relu(self.norm5(self.blocks(x)), inplace=True)
        x = F.adaptive_avg_pool2d(x, (1, 1)).squeeze(-1).squeeze(-1)
        return self.classifier(x)


class LayerNorm2d(nn.LayerNorm):
    """Layer normalization over the channels of images (Liu et al. 2022)."""

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A depthwise convolution and an MLP for each pixel (Liu et al. 2022)."""

    def __init__(self, dim, layer_scale=1e-6):
        super().__init__()
        self.dwconv = nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.pwconv1 = nn.Linear(dim, 4 * dim)
        self.act = nn.GELU()
        self.pwconv2 = nn.Linear(4 * dim, dim)
        self.gamma = nn.Parameter(layer_scale * torch.ones(dim))

    def forward(self, x):
        shortcut = x
        x = self.dwconv(x)
        x = x.permute(0, 2, 3, 1)  # (N, C, H, W) -> (N, H, W, C)
        x = self.norm(x)
        x = self.pwconv2(self.act(self.pwconv1(x)))
        x = self.gamma * x
        x = x.permute(0, 3, 1, 2)
        return shortcut + x


class ConvNeXt(nn.Module):
    """Liu et al. 2022, "A ConvNet for the 2020s", without stochastic depth."""

    def __init__(self, depths=(3, 3, 9, 3), dims=(96, 192, 384, 768), classes=1000):
        super().__init__()
        self.stages = nn.ModuleList()
        channels = 3
        for i, (depth, dim) in enumerate(zip(depths, dims, strict=True)):
            if i == 0:
                down = [nn.Conv2d(channels, dim, kernel_size=4, stride=4), LayerNorm2d(dim, eps=1e-6)]
            else:
                down = [LayerNorm2d(channels, eps=1e-6), nn.Conv2d(channels, dim, kernel_size=2, stride=2)]
            self.stages.append(nn.Sequential(*down, *[ConvNeXtBlock(dim) for _ in range(depth)]))
            channels = dim
        self.norm = nn.LayerNorm(channels, eps=1e-6)
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        x = self.norm(x.mean([-2, -1]))
        return self.head(x)


class Attention(nn.Module):
    """Self-attention with several heads (Vaswani et al. 2017)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class EncoderBlock(nn.Module):
    """Attention and an MLP, each after a normalization (Dosovitskiy et al. 2020)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """Dosovitskiy et al. 2020, "An image is worth 16x16 words"."""

    def __init__(self, side=224, patch=16, depth=12, width=768, heads=12, classes=1000):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.randn(1, (side // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[EncoderBlock(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        cls_token = self.cls_token.expand(x.shape[0], -1, -1)
        x = torch.cat((cls_token, x), dim=1) + self.pos_embed
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0])


mlp, lenet, alexnet, mobilenet_v2 = MLP, LeNet5, AlexNet, MobileNetV2
densenet121, convnext_tiny, vit_b_16 = DenseNet, ConvNeXt, VisionTransformer
vgg11 = partial(VGG, [1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"])
resnet18 = partial(ResNet, BasicBlock, [2, 2, 2, 2])
resnet50 = partial(ResNet, Bottleneck, [3, 4, 6, 3])


class Model(NamedTuple):
    """A network, its published size, and the arguments and input of a small version for tests."""

    make: Callable[..., nn.Module]
    input_shape: tuple[int, int, int]
    parameters: int
    small: dict[str, Any]
    small_input: tuple[int, int, int]


IMAGENET = (3, 224, 224)
SMALL_DENSENET = {"depths": (2, 3, 4, 2), "growth": 8, "classes": 10}
SMALL_CONVNEXT = {"depths": (1, 1, 2, 1), "dims": (8, 12, 16, 24), "classes": 10}
SMALL_VIT = {"side": 32, "depth": 2, "width": 24, "heads": 3, "classes": 10}
MODELS = {
    "mlp": Model(mlp, (1, 28, 28), 669_706, {"hidden": 16}, (1, 28, 28)),
    "lenet": Model(lenet, (1, 32, 32), 61_706, {}, (1, 32, 32)),
    "alexnet": Model(alexnet, (3, 227, 227), 60_965_224, {"side": 67, "hidden": 32, "classes": 10}, (3, 67, 67)),
    "vgg11": Model(vgg11, IMAGENET, 132_863_336, {"width": 8, "side": 32, "hidden": 32, "classes": 10}, (3, 32, 32)),
    "resnet18": Model(resnet18, IMAGENET, 11_689_512, {"width": 8, "classes": 10}, (3, 64, 64)),
    "resnet50": Model(resnet50, IMAGENET, 25_557_032, {"width": 8, "classes": 10}, (3, 64, 64)),
    "mobilenet_v2": Model(mobilenet_v2, IMAGENET, 3_504_872, {"width": 0.25, "last": 96, "classes": 10}, (3, 64, 64)),
    "densenet121": Model(densenet121, IMAGENET, 7_978_856, SMALL_DENSENET, (3, 64, 64)),
    "convnext_tiny": Model(convnext_tiny, IMAGENET, 28_589_128, SMALL_CONVNEXT, (3, 32, 32)),
    "vit_b_16": Model(vit_b_16, IMAGENET, 86_567_656, SMALL_VIT, (3, 32, 32)),
}
