import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from helpers import assert_same, seeds
from regard.blocks.attention import MultiHeadAttention
from regard.blocks.capture import capture
from regard.blocks.positions import Fourier, Rotary, Sinusoidal

CONTEXT = 64


def shift(frequencies: Tensor, distance: int, sine_first: bool) -> Tensor:
    """R_d: for each pair of dimensions the matrix that rotates it back by ω d."""
    angles = frequencies * distance
    blocks = []
    for cos, sin in zip(angles.cos(), angles.sin(), strict=True):
        # (cos, sin)(t−d) = [[cos, sin], [−sin, cos]] (cos, sin)(t); with the sine first, the other way round
        sign = -1 if sine_first else 1
        blocks.append(torch.stack((torch.stack((cos, sign * sin)), torch.stack((-sign * sin, cos)))))
    return torch.block_diag(*blocks)


def encodings(width: int) -> list[tuple[Tensor, Tensor, bool]]:
    """The encoding of each position, the frequencies, and whether sines come first."""
    x = torch.zeros(1, CONTEXT, width, dtype=torch.float64)
    k = torch.arange(width // 2, dtype=torch.float64)
    return [
        (Sinusoidal(width)(x), 10000 ** (-2 * k / width), True),
        (Fourier(width, CONTEXT)(x), (k + 1) * torch.pi / CONTEXT, False),
    ]


@given(st.integers(0, 30), st.sampled_from([2, 8, 16]))
def test_shifting_a_position_is_a_linear_map(distance, width) -> None:
    for encoding, frequencies, sine_first in encodings(width):
        matrix = shift(frequencies, distance, sine_first)
        assert_same(encoding[distance:] @ matrix.mT, encoding[: CONTEXT - distance], tolerance=1e-12)


@given(st.integers(0, 10))
def test_a_head_with_a_shift_matrix_attends_to_the_token_at_that_distance(distance) -> None:
    width = 32
    for encoding, frequencies, sine_first in encodings(width):
        head = MultiHeadAttention(width, 1, bias=False).double()
        with torch.no_grad():
            # the factor makes the softmax almost one-hot
            head.query.weight.copy_(2000 * shift(frequencies, distance, sine_first))
            head.key.weight.copy_(torch.eye(width))
        with capture(head) as maps:
            head(encoding[None])
        weights = maps[""][0, 0]
        for t in range(distance, CONTEXT):
            assert weights[t, t - distance] > 0.999


@given(seeds, st.integers(0, 50), st.sampled_from([2, 8]))
def test_rotary_scores_depend_on_relative_positions_only(seed, start, width) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key = (torch.randn(1, 1, 1, width, generator=generator, dtype=torch.float64) for _ in range(2))
    rotary, length = Rotary(width), 12
    scores = rotary(query.expand(1, 1, length, width), start) @ rotary(key.expand(1, 1, length, width), start).mT
    at_zero = rotary(query.expand(1, 1, length, width)) @ rotary(key.expand(1, 1, length, width)).mT
    assert_same(scores, at_zero, tolerance=1e-11)
    for distance in range(-length + 1, length):
        diagonal = scores[0, 0].diagonal(distance)
        assert_same(diagonal, diagonal[:1].expand_as(diagonal), tolerance=1e-11)


@given(seeds)
def test_rotary_positions_preserve_norms(seed) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, 2, 9, 8, generator=generator, dtype=torch.float64)
    assert_same(Rotary(8)(x).norm(dim=-1), x.norm(dim=-1))
