import math

import pytest
import torch

from helpers import assert_same
from regard.blocks.positions import Fourier, Learned, Positions, Rotary, Sinusoidal, make_positions


def on(length: int, width: int = 8, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.zeros(1, length, width, dtype=dtype)


def test_sinusoidal_positions_equal_the_formula_of_the_paper() -> None:
    encoding = Sinusoidal(8)(on(20))
    for t in (0, 1, 19):
        for k in range(4):
            angle = t / 10000 ** (2 * k / 8)
            assert encoding[t, 2 * k].item() == pytest.approx(math.sin(angle), abs=1e-15)
            assert encoding[t, 2 * k + 1].item() == pytest.approx(math.cos(angle), abs=1e-15)


def test_split_sinusoidal_positions_have_all_sines_before_all_cosines() -> None:
    together, split = Sinusoidal(8)(on(5)), Sinusoidal(8, split=True)(on(5))
    assert torch.equal(split, torch.cat((together[:, 0::2], together[:, 1::2]), dim=1))


def test_fourier_positions_equal_the_formula_of_the_lecture() -> None:
    context = 32
    encoding = Fourier(6, context)(on(10))
    for t in (0, 3, 9):
        for k in (1, 2, 3):
            angle = math.pi * k * t / context
            assert encoding[t, 2 * k - 2].item() == pytest.approx(math.cos(angle), abs=1e-14)
            assert encoding[t, 2 * k - 1].item() == pytest.approx(math.sin(angle), abs=1e-14)


def test_fourier_positions_do_not_depend_on_the_sequence_length() -> None:
    fourier = Fourier(6, 32)
    assert torch.equal(fourier(on(5)), fourier(on(30))[:5])


@pytest.mark.parametrize("encoding", [Sinusoidal(8), Sinusoidal(8, split=True), Fourier(8, 64), Learned(8, 64)])
def test_positions_may_start_at_any_offset(encoding) -> None:
    assert torch.equal(encoding(on(4), start=6), encoding(on(10))[6:])


def test_large_positions_are_exact_in_float32() -> None:
    # angles in double precision: in float32, t = 100,003 times ω_1 would be off by up to 4e-3
    exact = Sinusoidal(8)(on(1), start=100_003)
    assert_same(Sinusoidal(8)(on(1, dtype=torch.float32), start=100_003), exact.float(), tolerance=1e-7)


def test_positions_are_added_or_concatenated() -> None:
    x = torch.randn(2, 5, 8)
    encoding = Sinusoidal(8)
    assert torch.equal(Positions(encoding, "add")(x), x + encoding(x))
    beside = Positions(Sinusoidal(4), "concatenate")(x)
    assert torch.equal(beside[..., :8], x)
    assert torch.equal(beside[1, :, 8:], Sinusoidal(4)(x))


def test_none_and_rotary_add_no_positions_to_embeddings() -> None:
    assert make_positions("none", 8, 16) is None
    assert make_positions("rotary", 8, 16) is None


@pytest.mark.parametrize("encoding", [Fourier(8, 10), Learned(8, 10)])
def test_positions_beyond_the_context_raise_an_error(encoding) -> None:
    assert encoding(on(10)).shape == (10, 8)
    with pytest.raises(ValueError, match=r"11 tokens exceed the context of 10; raise model\.context"):
        encoding(on(11))
    with pytest.raises(ValueError, match="12 tokens exceed the context of 10"):
        encoding(on(2), start=10)


def test_unknown_kinds_raise_an_error() -> None:
    with pytest.raises(ValueError, match="positions should be one of 'sinusoidal', .* got 'sinusodal'"):
        make_positions("sinusodal", 8, 16)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="merge should be one of 'add', 'concatenate', got 'concat'"):
        make_positions("sinusoidal", 8, 16, "concat")  # type: ignore[arg-type]


def test_tables_cached_in_inference_mode_work_in_training() -> None:
    positions = Positions(Sinusoidal(6))
    with torch.inference_mode():
        positions(torch.zeros(1, 777, 6))
    x = torch.zeros(1, 777, 6, requires_grad=True)
    (positions(x) ** 2).sum().backward()
    assert x.grad is not None


def test_odd_widths_and_wrong_shapes_raise_an_error() -> None:
    for make in (lambda: Sinusoidal(7), lambda: Fourier(7, 10), lambda: Rotary(7)):
        with pytest.raises(ValueError, match="come in pairs, but the width is 7"):
            make()
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 8\), got \(1, 3, 6\)"):
        Positions(Sinusoidal(8))(torch.zeros(1, 3, 6))
    with pytest.raises(ValueError, match=r"x should have shape \(batch, heads, length, 4\), got \(1, 2, 3, 6\)"):
        Rotary(4)(torch.zeros(1, 2, 3, 6))


def test_large_rotary_positions_are_exact_in_float32() -> None:
    x = torch.randn(1, 1, 1, 8)
    assert_same(Rotary(8)(x, 100_003), Rotary(8)(x.double(), 100_003).float(), tolerance=1e-6)


def test_learned_positions_are_initialised_with_small_values() -> None:
    # six standard errors of the deviation of 20,000 normal numbers are 3 %
    assert Learned(100, 200).weight.std().item() == pytest.approx(0.02, rel=0.03)


def test_rotary_positions_rotate_pairs_of_dimensions() -> None:
    x = torch.tensor([[[[1.0, 0.0, 0.0, 2.0]] * 3]], dtype=torch.float64)
    turned = Rotary(4)(x)[0, 0, 2]
    slow = 2 / 100
    expected = [math.cos(2), math.sin(2), -2 * math.sin(slow), 2 * math.cos(slow)]
    assert_same(turned, torch.tensor(expected, dtype=torch.float64))
