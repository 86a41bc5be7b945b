import math

import pytest
import torch

from helpers import assert_same
from regard.blocks.feedforward import FeedForward


def test_relu_feedforward_is_equation_2_of_the_paper() -> None:
    network = FeedForward(4, 7).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    inner = (x @ network.inner.weight.T + network.inner.bias).clamp(min=0)
    assert_same(network(x), inner @ network.outer.weight.T + network.outer.bias)


def test_gelu_is_x_times_the_normal_distribution() -> None:
    network = FeedForward(4, 7, "gelu").double()
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    inner = network.inner(x)
    inner = inner * 0.5 * (1 + torch.erf(inner / math.sqrt(2)))
    assert_same(network(x), network.outer(inner))


def test_each_position_is_computed_independently() -> None:
    network = FeedForward(4, 7).double()
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    assert_same(network(x[:, 1:2]), network(x)[:, 1:2])


def test_an_unknown_activation_raises_an_error() -> None:
    with pytest.raises(ValueError, match=r"activation should be one of 'relu', .*'swish', got 'rleu'"):
        FeedForward(4, 7, "rleu")  # type: ignore[arg-type]


def test_wrong_widths_raise_an_error() -> None:
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 4\), got \(2, 3, 5\)"):
        FeedForward(4, 7)(torch.zeros(2, 3, 5))
