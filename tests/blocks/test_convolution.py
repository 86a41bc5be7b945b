import pytest
import torch

from helpers import assert_same, randomise
from regard.blocks.convolution import GatedConvolution


def by_hand(layer: GatedConvolution, x: torch.Tensor, before: int) -> torch.Tensor:
    """(x ∗ A + a) ⊙ σ(x ∗ B + b), one sum at a time."""
    weight, bias, (batch, length, width) = layer.filters.weight, layer.filters.bias, x.shape
    result = torch.zeros(batch, length, 2 * width, dtype=x.dtype)
    for t in range(length):
        for offset in range(layer.kernel):
            if 0 <= (s := t + offset - before) < length:
                result[:, t] += x[:, s] @ weight[:, :, offset].T
    linear, gate = (result + bias).chunk(2, dim=-1)
    return linear * torch.sigmoid(gate)


@pytest.mark.parametrize(("causal", "kernel", "before"), [(False, 3, 1), (False, 5, 2), (True, 3, 2), (True, 4, 3)])
def test_the_output_equals_the_formula_computed_by_hand(causal, kernel, before) -> None:
    layer = randomise(GatedConvolution(4, kernel, causal))
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    assert_same(layer(x), by_hand(layer, x, before))


def test_future_tokens_do_not_change_past_outputs_of_a_causal_convolution() -> None:
    layer = randomise(GatedConvolution(4, 3, causal=True))
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    assert_same(layer(x[:, :4]), layer(x)[:, :4])


@pytest.mark.parametrize("causal", [False, True])
def test_padding_does_not_change_the_output(causal) -> None:
    layer = randomise(GatedConvolution(4, 3, causal))
    x = torch.randn(1, 6, 4, dtype=torch.float64)
    is_padding = torch.tensor([[False] * 4 + [True] * 2])
    assert_same(layer(x, is_padding)[:, :4], layer(x[:, :4]))


def test_incremental_convolution_equals_the_whole_sequence() -> None:
    layer = randomise(GatedConvolution(4, 3, causal=True))
    x = torch.randn(2, 6, 4, dtype=torch.float64)
    past, found = layer.begin(2), []
    assert past.dtype == x.dtype
    for token in x.split(1, dim=1):
        y, past = layer.step(token, past)
        found.append(y)
    assert_same(torch.cat(found, dim=1), layer(x))


def test_invalid_input_raises_an_error() -> None:
    with pytest.raises(ValueError, match="a kernel of size 4 has no centre"):
        GatedConvolution(4, 4, causal=False)
    for use in (lambda layer: layer.begin(2), lambda layer: layer.step(torch.zeros(2, 1, 4), torch.zeros(2, 2, 4))):
        with pytest.raises(ValueError, match="cannot run step by step"):
            use(GatedConvolution(4, 3, causal=False))
    with pytest.raises(ValueError, match=r"past should have shape \(batch, 2, 4\), got \(2, 5, 4\)"):
        GatedConvolution(4, 3, causal=True).step(torch.zeros(2, 1, 4), torch.zeros(2, 5, 4))
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 4\), got \(2, 6, 5\)"):
        GatedConvolution(4, 3, causal=True)(torch.zeros(2, 6, 5))
    with pytest.raises(ValueError, match=r"is_padding should have shape \(2, 6\), got \(2, 5\)"):
        GatedConvolution(4, 3, causal=True)(torch.zeros(2, 6, 4), torch.zeros(2, 5, dtype=torch.bool))
