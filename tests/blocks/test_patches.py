"""Patches, their positions on a grid, and what represents the image."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from regard.blocks.patches import (
    AttentionPool,
    ConvolutionalStem,
    Learned2d,
    LinearStem,
    Sinusoidal2d,
    resized,
)

GRIDS = list(itertools.product(range(1, 7), range(1, 7)))


def test_a_linear_stem_is_a_strided_convolution() -> None:
    stem = LinearStem(3, 4, 10).double()
    x = torch.randn(2, 3, 12, 20, dtype=torch.float64)
    weight = stem.projection.weight.unflatten(1, (3, 4, 4))
    expected = F.conv2d(x, weight, stem.projection.bias, stride=4).flatten(2).mT
    assert torch.allclose(stem(x), expected, rtol=0, atol=1e-12)
    assert stem.grid(12, 20) == (3, 5)


@pytest.mark.parametrize("size", [(16, 16), (12, 20), (7, 9)])
def test_the_grid_of_a_convolutional_stem_is_that_of_its_output(size: tuple[int, int]) -> None:
    stem = ConvolutionalStem(1, 2, 8)
    rows, columns = stem.grid(*size)
    assert stem(torch.randn(2, 1, *size)).shape == (2, rows * columns, 8)


@given(st.sampled_from(GRIDS), st.sampled_from(GRIDS), st.integers(0, 2))
def test_positions_of_any_grid_are_interpolated_for_any_other(
    old: tuple[int, int], new: tuple[int, int], extra: int
) -> None:
    weight_TD = torch.randn(extra + old[0] * old[1], 5, dtype=torch.float64)
    found = resized(weight_TD, old, new, extra)
    assert torch.equal(found[:extra], weight_TD[:extra])
    image = weight_TD[extra:].view(*old, 5).permute(2, 0, 1)[None]
    expected = F.interpolate(image, new, mode="bicubic")[0].permute(1, 2, 0).reshape(-1, 5) if old != new else None
    assert torch.equal(found[extra:], weight_TD[extra:] if expected is None else expected)


def test_equal_numbers_of_patches_do_not_mean_equal_grids() -> None:
    encoding = Learned2d(4, (2, 8), 1)
    x = torch.zeros(1, 17, 4)
    assert torch.equal(encoding(x, (2, 8)), encoding.weight)
    assert not torch.allclose(encoding(x, (4, 4)), encoding.weight)


def test_sinusoidal_positions_tell_rows_from_columns() -> None:
    encoding_TD = Sinusoidal2d(8, (3, 5), 1)(torch.zeros(1, 16, 8))
    assert torch.equal(encoding_TD[0], torch.zeros(8))
    grid = encoding_TD[1:].view(3, 5, 8)
    column, row = grid[..., :4], grid[..., 4:]
    assert torch.equal(column, column[:1].expand_as(column))
    assert torch.equal(row, row[:, :1].expand_as(row))
    assert len(encoding_TD[1:].unique(dim=0)) == 15


def test_attention_pooling_is_a_weighted_mean() -> None:
    pool = AttentionPool(6).double()
    x = torch.randn(2, 7, 6, dtype=torch.float64)
    weights = (x @ pool.query).softmax(1)
    assert torch.allclose(pool(x)[:, 0], (weights[..., None] * x).sum(1), rtol=0, atol=1e-12)
