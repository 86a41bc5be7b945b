"""Data augmentation of images, on whole batches: the same seed gives the same images.

Pixels are floats from 0 to 255. Each image of a batch gets its own random numbers, all from one generator.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from regard.config import Config, Natural

Probability = Annotated[float, Field(ge=0, le=1)]
Concentration = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, kw_only=True)
class AugmentConfig(Config):
    """Data augmentation of training images. By default, all of it is off."""

    crop: Natural = 0
    """Random crop: the image is shifted by up to this many pixels in each direction, with black borders."""
    flip: bool = False
    """Random horizontal flip of half of the images."""
    operations: Natural = 0
    """RandAugment: number of random operations per image, such as rotate, shear, shift, contrast or solarize."""
    magnitude: Probability = 0.5
    """RandAugment: strength of the operations, from 0 to 1."""
    erase: Probability = 0.0
    """Random erasing: fraction of the images of which a rectangle is replaced by noise."""
    mixup: Concentration = 0.0
    """Mixup: α of the Beta distribution of the weights with which two images are mixed; 0: off."""
    cutmix: Concentration = 0.0
    """CutMix: α of the Beta distribution of the area that is replaced by another image; 0: off. With mixup, each batch
    uses one of both."""

    @property
    def mixes(self) -> bool:
        """Whether images of a batch are mixed."""
        return bool(self.mixup or self.cutmix)


class Mixed(NamedTuple):
    """Images of a batch, each mixed with another one."""

    images_BCYX: Tensor
    partner_B: Tensor
    """The index of the other image."""
    weight_B: Tensor
    """The share of the image itself; the rest is that of the other."""


def augmented(images_BCYX: Tensor, config: AugmentConfig, random: torch.Generator) -> Tensor:
    """Randomly changed copies of images."""
    if config.flip:
        flipped_B111 = torch.rand(len(images_BCYX), 1, 1, 1, generator=random) < 0.5
        images_BCYX = torch.where(flipped_B111, images_BCYX.flip(3), images_BCYX)
    if config.crop:
        images_BCYX = shifted(images_BCYX, config.crop, random)
    for _ in range(config.operations):
        images_BCYX = one_operation(images_BCYX, config.magnitude, random)
    if config.erase:
        images_BCYX = erased(images_BCYX, config.erase, random)
    return images_BCYX


def shifted(images_BCYX: Tensor, most: int, random: torch.Generator) -> Tensor:
    """Images shifted by up to `most` pixels in each direction."""
    batch, _, rows, columns = images_BCYX.shape
    padded = F.pad(images_BCYX, (most,) * 4)
    top_B, left_B = torch.randint(0, 2 * most + 1, (2, batch), generator=random)
    rows_BY = top_B[:, None] + torch.arange(rows)
    columns_BX = left_B[:, None] + torch.arange(columns)
    index_B = torch.arange(batch)
    # advanced indices on both sides of a slice put their dimensions first
    return padded[index_B[:, None, None], :, rows_BY[:, :, None], columns_BX[:, None, :]].permute(0, 3, 1, 2)


def erased(images_BCYX: Tensor, rate: float, random: torch.Generator) -> Tensor:
    """Images of which some have a rectangle of noise: 2 to 33 % of the area, sides in a ratio of 0.3 to 3.3."""
    batch, _, rows, columns = images_BCYX.shape
    area_B = torch.empty(batch).uniform_(0.02, 1 / 3, generator=random) * rows * columns
    ratio_B = torch.empty(batch).uniform_(-math.log(10 / 3), math.log(10 / 3), generator=random).exp()
    inside_BYX = rectangles((area_B * ratio_B).sqrt(), (area_B / ratio_B).sqrt(), rows, columns, random)
    chosen_B = torch.rand(batch, generator=random) < rate
    noise_BCYX = torch.empty_like(images_BCYX).uniform_(0, 255, generator=random)
    return torch.where((inside_BYX & chosen_B[:, None, None])[:, None], noise_BCYX, images_BCYX)


def rectangles(height_B: Tensor, width_B: Tensor, rows: int, columns: int, random: torch.Generator) -> Tensor:
    """Masks of one rectangle per image, of these sizes and at a random place within the image."""
    height_B, width_B = height_B.round().clamp(0, rows), width_B.round().clamp(0, columns)
    top_B = (torch.rand(len(height_B), generator=random) * (rows - height_B + 1)).floor()
    left_B = (torch.rand(len(width_B), generator=random) * (columns - width_B + 1)).floor()
    y_Y, x_X = torch.arange(rows), torch.arange(columns)
    inside_BY = (y_Y >= top_B[:, None]) & (y_Y < (top_B + height_B)[:, None])
    inside_BX = (x_X >= left_B[:, None]) & (x_X < (left_B + width_B)[:, None])
    return inside_BY[:, :, None] & inside_BX[:, None, :]


# RandAugment (Cubuk et al. 2020): each operation takes images and a strength per image, between −1 and 1

Operation = Callable[[Tensor, Tensor], Tensor]


def one_operation(images_BCYX: Tensor, magnitude: float, random: torch.Generator) -> Tensor:
    """Applies one random operation to each image."""
    batch = len(images_BCYX)
    chosen_B = torch.randint(0, len(OPERATIONS) + len(AFFINE), (batch,), generator=random)
    sign_B = torch.randint(0, 2, (batch,), generator=random) * 2 - 1
    strength_B = torch.rand(batch, generator=random) * magnitude * sign_B
    result = images_BCYX.clone()
    for number, operation in enumerate(OPERATIONS):
        which = (chosen_B == number).nonzero()[:, 0]
        if len(which):
            result[which] = operation(images_BCYX[which], strength_B[which].view(-1, 1, 1, 1))
    which = (chosen_B >= len(OPERATIONS)).nonzero()[:, 0]
    if len(which):
        result[which] = transformed(images_BCYX[which], chosen_B[which] - len(OPERATIONS), strength_B[which])
    return result


def _unchanged(images: Tensor, _strength: Tensor) -> Tensor:
    return images


def _brightness(images: Tensor, strength: Tensor) -> Tensor:
    return (images * (1 + 0.9 * strength)).clamp(0, 255)


def _contrast(images: Tensor, strength: Tensor) -> Tensor:
    mean = images.mean((1, 2, 3), keepdim=True)
    return (mean + (images - mean) * (1 + 0.9 * strength)).clamp(0, 255)


def _saturation(images: Tensor, strength: Tensor) -> Tensor:
    grey = images.mean(1, keepdim=True)
    return (grey + (images - grey) * (1 + 0.9 * strength)).clamp(0, 255)


def _sharpness(images: Tensor, strength: Tensor) -> Tensor:
    smooth = F.avg_pool2d(F.pad(images, (1,) * 4, mode="replicate"), 3, 1)
    return (smooth + (images - smooth) * (1 + 0.9 * strength)).clamp(0, 255)


def _posterize(images: Tensor, strength: Tensor) -> Tensor:
    step = 2.0 ** (strength.abs() * 4).round()
    return (images / step).floor() * step


def _solarize(images: Tensor, strength: Tensor) -> Tensor:
    return torch.where(images >= 255 * (1 - strength.abs()), 255 - images, images)


def _stretched(images: Tensor, _strength: Tensor) -> Tensor:
    low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
    return torch.where(high > low, (images - low) * (255 / (high - low).clamp(min=1e-6)), images)


OPERATIONS: tuple[Operation, ...] = (
    *(_unchanged, _brightness, _contrast, _saturation, _sharpness, _posterize, _solarize, _stretched),
)
AFFINE = ("rotate", "shear x", "shear y", "shift x", "shift y")
"""Operations that are one matrix, so that images with different ones are transformed at once."""


def transformed(images_BCYX: Tensor, kind_B: Tensor, strength_B: Tensor) -> Tensor:
    """Rotated by up to 30°, sheared by up to 0.3, or shifted by up to 0.3 of the side; borders are black."""
    angle_B = torch.where(kind_B == 0, strength_B * math.pi / 6, 0.0)
    shear_x, shear_y, shift_x, shift_y = (torch.where(kind_B == k, 0.3 * strength_B, 0.0) for k in range(1, 5))
    cos_B, sin_B = angle_B.cos(), angle_B.sin()
    # coordinates of `affine_grid` run from −1 to 1, so a shift of a whole side is 2
    rows = (
        torch.stack((cos_B, shear_x - sin_B, 2 * shift_x), dim=1),
        torch.stack((sin_B + shear_y, cos_B, 2 * shift_y), dim=1),
    )
    grid = F.affine_grid(torch.stack(rows, dim=1), list(images_BCYX.shape), align_corners=False)
    return F.grid_sample(images_BCYX, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def mixed(images_BCYX: Tensor, config: AugmentConfig, random: torch.Generator) -> Mixed:
    """Each image mixed with another of the batch: all pixels by a weight (mixup), or a rectangle of them (CutMix)."""
    batch, _, rows, columns = images_BCYX.shape
    partner_B = torch.randperm(batch, generator=random)
    is_mixup = not config.cutmix or (config.mixup and bool(torch.rand((), generator=random) < 0.5))
    weight_B = _beta(config.mixup if is_mixup else config.cutmix, batch, random)
    if is_mixup:
        weight_B111 = weight_B.view(-1, 1, 1, 1)
        return Mixed(torch.lerp(images_BCYX[partner_B], images_BCYX, weight_B111), partner_B, weight_B)
    side_B = (1 - weight_B).sqrt()
    inside_BYX = rectangles(side_B * rows, side_B * columns, rows, columns, random)
    pasted = torch.where(inside_BYX[:, None], images_BCYX[partner_B], images_BCYX)
    return Mixed(pasted, partner_B, 1 - inside_BYX.float().mean((1, 2)))


def _beta(alpha: float, count: int, random: torch.Generator) -> Tensor:
    """Samples of Beta(α, α)."""
    # NumPy's, because torch's distributions take no generator
    seed = int(torch.randint(2**62, (), generator=random))
    return torch.from_numpy(np.random.default_rng(seed).beta(alpha, alpha, count).astype(np.float32))
