"""Helpers of several tests."""

from typing import Any, TypeVar

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from regard.blocks.norms import LayerNorm

sizes = st.integers(1, 5)
seeds = st.integers(0, 2**31)

# in float64 only the order of additions matters; float32 has 24 bits, and sums over a few dozen terms lose a few
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-5}


def assert_same(got: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    tolerance = TOLERANCE[expected.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(got, expected, rtol=tolerance, atol=tolerance)


M = TypeVar("M", bound=nn.Module)


def randomise(module: M) -> M:
    """Sets parameters and running statistics to random values, so that a forgotten norm or bias changes the output."""
    for parameter in module.parameters():
        if parameter.requires_grad:
            nn.init.normal_(parameter, std=0.3)
    for name, buffer in module.named_buffers():
        if "running" in name:
            nn.init.uniform_(buffer, 0.5, 1.5)
    return module.double()


@torch.no_grad()
def random_model(model: M) -> M:
    """A model for inference, with random weights that give different words different predictions."""
    for module in randomise(model).modules():
        if isinstance(module, LayerNorm):
            module.weight.add_(1)
    return model.eval()


def padded_tokens(lengths: list[int], vocab_size: int = 11) -> Tensor:
    """Random tokens other than zero, padded with zeros."""
    tokens_BS = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    for row, length in zip(tokens_BS, lengths, strict=True):
        row[:length] = torch.randint(1, vocab_size, (length,))
    return tokens_BS


def padded(lengths: list[int], vocab_size: int = 11) -> tuple[Tensor, Tensor]:
    """Random tokens, also at padding positions, and the padding mask."""
    tokens_BS = torch.randint(vocab_size, (len(lengths), max(lengths)))
    return tokens_BS, torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]


@st.composite
def attention_inputs(draw: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor | None, float | None]:
    """Queries, keys, values, a mask of any shape that broadcasts (fully masked rows included), and a scale."""
    batch, heads, queries, keys, width, value_width = (draw(sizes) for _ in range(6))
    generator = torch.Generator().manual_seed(draw(seeds))
    query, key, value = (
        torch.randn(batch, heads, length, size, generator=generator, dtype=dtype, requires_grad=True)
        for length, size in ((queries, width), (keys, width), (keys, value_width))
    )
    allowed = None
    if draw(st.booleans()):
        shape = [size if draw(st.booleans()) else 1 for size in (batch, heads, queries, keys)]
        allowed = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.0, 0.3, 0.7]))
    return query, key, value, allowed, draw(st.sampled_from([None, 1.0, 0.2]))
