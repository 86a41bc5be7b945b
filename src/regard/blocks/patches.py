"""Images as sequences of patches (Dosovitskiy et al. 2021, section 3.1), their positions, and pooling.

    linear stem         x_p = W · patch_p + b
    convolutional stem  convolution, ReLU, max pooling, repeated; each position of the result is a patch
                        (Hassani et al. 2021: Compact Transformers)

Patches are ordered row by row. Images are (batch, channels, rows, columns), already normalised.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.attend import Attend
from regard.blocks.initialization import normal_
from regard.blocks.operations import Call, Operation
from regard.blocks.positions import Sinusoidal
from regard.blocks.shapes import expect

Grid = tuple[int, int]
"""The number of rows and columns of patches."""


class LinearStem(nn.Module):
    """Cuts an image into square patches without overlap and projects each with the same linear layer."""

    equation: ClassVar = "x_p = W patch_p + b"

    def __init__(self, channels: int, patch: int, width: int) -> None:
        super().__init__()
        self.channels, self.patch = channels, patch
        self.projection = nn.Linear(channels * patch * patch, width)

    def grid(self, rows: int, columns: int) -> Grid:
        """The grid of patches of an image of this size."""
        return rows // self.patch, columns // self.patch

    def forward(self, images_BCYX: Tensor) -> Tensor:
        """A vector per patch; pixels beyond the last whole patch are ignored."""
        expect("images", images_BCYX, "batch", self.channels, "rows", "columns")
        return self.projection(patches(images_BCYX, self.patch))


class ConvolutionalStem(nn.Module):
    """Convolutions with max pooling: each of its `layers` halves the rows and columns."""

    equation: ClassVar = "x = maxpool(relu(W ∗ image)), layer by layer"

    def __init__(self, channels: int, layers: int, width: int) -> None:
        super().__init__()
        self.channels = channels
        widths = [channels, *(max(1, width // 2 ** (layers - 1 - i)) for i in range(layers))]
        self.layers = nn.ModuleList(
            nn.Conv2d(widths[i], widths[i + 1], 3, padding=1, bias=False) for i in range(layers)
        )

    def grid(self, rows: int, columns: int) -> Grid:
        """The grid of patches of an image of this size."""
        for _ in self.layers:
            rows, columns = (rows + 1) // 2, (columns + 1) // 2
        return rows, columns

    def forward(self, images_BCYX: Tensor) -> Tensor:
        """A vector per position of the last layer."""
        expect("images", images_BCYX, "batch", self.channels, "rows", "columns")
        x = images_BCYX
        for layer in self.layers:
            x = F.max_pool2d(F.relu(layer(x)), 3, stride=2, padding=1)
        return x.flatten(2).mT


def patches(images_BCYX: Tensor, patch: int) -> Tensor:
    """The pixels of each patch, row by row: (batch, patches, channels · patch · patch)."""
    batch, channels, height, width = images_BCYX.shape
    rows, columns = height // patch, width // patch
    whole = images_BCYX[:, :, : rows * patch, : columns * patch]
    blocks = whole.reshape(batch, channels, rows, patch, columns, patch)
    return blocks.permute(0, 2, 4, 1, 3, 5).reshape(batch, rows * columns, channels * patch * patch)


class Learned2d(nn.Module):
    """e_p is a trained vector per patch of a grid, after one for each of the `extra` class tokens.

    For images of another size, the vectors are interpolated (bicubic).
    """

    def __init__(self, width: int, grid: Grid, extra: int) -> None:
        super().__init__()
        self.grid, self.extra = grid, extra
        self.context = self.extra + grid[0] * grid[1]
        self.weight = nn.Parameter(normal_(torch.empty(self.context, width), std=0.02))

    def forward(self, x_BTD: Tensor, grid: Grid | Literal[0] = 0) -> Tensor:
        """e_p for the tokens of x, an image with this grid of patches; 0: the grid of training."""
        return resized(self.weight, self.grid, grid or self.grid, self.extra)[: x_BTD.size(1)]


class Sinusoidal2d(nn.Module):
    """e_p is sines and cosines of the column in one half of the features, of the row in the other (He et al. 2022).

    Rows and columns are counted from 0. The `extra` class tokens get no position.
    """

    def __init__(self, width: int, grid: Grid, extra: int) -> None:
        super().__init__()
        if width % 4:
            raise ValueError(f"2-D sinusoidal positions need a width divisible by 4, got {width}")
        self.grid, self.extra = grid, extra
        self.encoding = Sinusoidal(width // 2, split=True)

    def forward(self, x_BTD: Tensor, grid: Grid | Literal[0] = 0) -> Tensor:
        """e_p for the tokens of x, an image with this grid of patches; 0: the grid of training."""
        grid = grid or self.grid
        rows_YE, columns_XE = (self.encoding(x_BTD.new_empty(1, size, 1)) for size in grid)
        halves = columns_XE.expand(*grid, -1), rows_YE[:, None].expand(*grid, -1)
        return F.pad(torch.cat(halves, dim=2).flatten(0, 1), (0, 0, self.extra, 0))[: x_BTD.size(1)]


def resized(weight_TD: Tensor, old: Grid, new: Grid, extra: int = 0) -> Tensor:
    """Position vectors of one grid, interpolated for another; the first `extra` vectors are kept as they are.

    Each pair of grids is interpolated by its shape, also if the number of patches is the same, as for 2 × 8 and 4 × 4.
    """
    if old == new:
        return weight_TD
    first, rest = weight_TD[:extra], weight_TD[extra:]
    image = rest.T.unflatten(1, old)[None]
    # in float32 at least: half precision has no bicubic interpolation on every device
    wide = image.float() if image.dtype in (torch.float16, torch.bfloat16) else image
    found = F.interpolate(wide, new, mode="bicubic", align_corners=False)
    return torch.cat((first, found[0].flatten(1).T.to(weight_TD.dtype)))


class PatchEmbedding(nn.Module):
    """A vector per patch, after a trained one for each class token, which collects what represents the image."""

    def __init__(self, stem: LinearStem | ConvolutionalStem, width: int, extra: int) -> None:
        super().__init__()
        self.stem = stem
        self.class_tokens = nn.Parameter(normal_(torch.empty(extra, width), std=0.02)) if extra else None

    def forward(self, images_BCYX: Tensor) -> Tensor:
        """The class tokens, then the patches."""
        x_BPD = self.stem(images_BCYX)
        if self.class_tokens is None:
            return x_BPD
        return torch.cat((self.class_tokens.expand(len(x_BPD), -1, -1), x_BPD), dim=1)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The pixels of a patch, if the stem is linear, and its vector."""
        forward, line = PatchEmbedding.forward, "x_BPD = self.stem("
        extra = 0 if self.class_tokens is None else len(self.class_tokens)
        if isinstance(self.stem, LinearStem):
            # class tokens have no pixels: NaN, as for masked numbers
            pixels_BTE = F.pad(call.of(self.stem.projection).args[0], (0, 0, extra, 0), value=torch.nan)
            yield Operation("pixels of the patch", "patch_p", pixels_BTE, (LinearStem.forward, "patches("))
        yield Operation("patch embedding", self.stem.equation, call.output, (forward, line))


class AttentionPool(nn.Module):
    """A weighted mean of all patches, with the attention weights of one trained query: softmax(w · x_p)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(normal_(torch.empty(width), std=width**-0.5))
        self.attend = Attend(1)

    def forward(self, x_BPD: Tensor) -> Tensor:
        """One vector per image, as a sequence of length 1."""
        query_BH1D, x_BHPD = self.query.expand(len(x_BPD), 1, 1, -1), x_BPD[:, None]
        return self.attend(query_BH1D, x_BHPD, x_BHPD, None, 1.0)[:, 0]
