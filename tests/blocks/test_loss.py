import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from helpers import assert_same, seeds
from regard.blocks import loss
from regard.blocks.loss import linear_cross_entropy


@given(st.integers(1, 40), st.integers(2, 9), seeds, st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from([1, 7, 512]))
def test_value_and_gradients_equal_torch_cross_entropy(tokens, vocabulary, seed, label_smoothing, rows) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(tokens, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(vocabulary, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(vocabulary, generator=generator, dtype=torch.float64, requires_grad=True)
    target = torch.randint(0, vocabulary, (tokens,), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loss, "ROWS", rows)
        smooth, plain = linear_cross_entropy(x, weight, bias, target, label_smoothing)
    expected = F.cross_entropy(x @ weight.T + bias, target, reduction="sum", label_smoothing=label_smoothing)
    assert_same(smooth, expected)
    assert_same(plain, F.cross_entropy(x @ weight.T + bias, target, reduction="sum"))
    assert not plain.requires_grad
    leaves = (x, weight, bias)
    for got, wanted in zip(
        torch.autograd.grad(smooth * 0.3, leaves), torch.autograd.grad(expected * 0.3, leaves), strict=True
    ):
        assert_same(got, wanted)


def test_the_loss_of_no_tokens_is_zero() -> None:
    x = torch.zeros(0, 6, requires_grad=True)
    smooth, plain = linear_cross_entropy(x, torch.randn(5, 6), None, torch.zeros(0, dtype=torch.long), 0.1)
    assert smooth == plain == 0
    smooth.backward()


def test_a_frozen_output_layer_gets_no_gradient() -> None:
    x, weight = torch.randn(3, 6, requires_grad=True), torch.randn(5, 6)
    linear_cross_entropy(x, weight, None, torch.tensor([0, 1, 2]))[0].backward()
    assert x.grad is not None
    assert weight.grad is None


def test_wrong_shapes_raise_an_error() -> None:
    with pytest.raises(ValueError, match=r"x should have shape \(tokens, 6\), got \(3, 5\)"):
        linear_cross_entropy(torch.zeros(3, 5), torch.zeros(7, 6), None, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ValueError, match=r"target should have shape \(3\), got \(4,\)"):
        linear_cross_entropy(torch.zeros(3, 6), torch.zeros(7, 6), None, torch.zeros(4, dtype=torch.long))
