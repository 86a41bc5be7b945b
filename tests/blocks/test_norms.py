import pytest
import torch
from torch import nn

from helpers import assert_same, randomise
from regard.blocks.norms import BatchNorm, LayerNorm, Residual, make_norm


def test_layer_norm_equals_the_formula_of_the_paper() -> None:
    norm = randomise(LayerNorm(6, eps=0.0))
    x = torch.randn(2, 3, 6, dtype=torch.float64)
    mean = x.sum(-1, keepdim=True) / 6
    deviation = ((x - mean) ** 2).sum(-1, keepdim=True).div(6).sqrt()
    assert_same(norm(x), norm.weight * (x - mean) / deviation + norm.bias)


def test_batch_norm_uses_statistics_of_each_feature_and_position_over_the_batch() -> None:
    norm = randomise(BatchNorm(6, context=10, eps=0.0))
    x = torch.randn(5, 3, 6, dtype=torch.float64)
    normed = norm(x)
    for t in range(3):
        for d in range(6):
            column = x[:, t, d]
            mean = column.sum() / 5
            deviation = ((column - mean) ** 2).sum().div(5).sqrt()
            assert_same(normed[:, t, d], norm.weight[d] * (column - mean) / deviation + norm.bias[d])


def test_batch_norm_depends_on_the_batch_in_training_and_layer_norm_does_not() -> None:
    x = torch.randn(4, 3, 6)
    for norm, depends in ((LayerNorm(6), False), (BatchNorm(6, 10), True)):
        assert torch.allclose(norm(x)[:2], norm(x[:2]), atol=1e-6) != depends


def test_batch_norm_uses_running_statistics_in_evaluation() -> None:
    norm = BatchNorm(6, context=10).double()
    x = 3 + 2 * torch.randn(4000, 3, 6, dtype=torch.float64)
    for _ in range(200):
        norm(x)
    norm.eval()
    assert_same(norm(x[:1]), (x[:1] - x.mean(0)) / x.std(0), tolerance=1e-3)
    assert_same(norm(x[:1, 1:2], 1), norm(x[:1])[:, 1:2])


def test_running_statistics_have_a_momentum_of_a_tenth_and_are_saved() -> None:
    norm = BatchNorm(6, context=10)
    assert_same(norm.eval()(torch.ones(1, 3, 6)), torch.ones(1, 3, 6))
    x = 3 + torch.randn(4, 3, 6, requires_grad=True)
    norm.train()(x).sum().backward()
    assert_same(norm.running_mean[:3], 0.1 * x.mean(0))
    assert_same(norm.running_variance[:3], 0.9 + 0.1 * x.var(0, unbiased=False))
    assert (norm.running_mean[3:] == 0).all()
    assert not norm.running_mean.requires_grad
    assert {"running_mean", "running_variance"} < set(norm.state_dict())


def test_batch_norm_beyond_its_context_raises_an_error() -> None:
    with pytest.raises(ValueError, match="11 tokens exceed the context of 10"):
        make_norm("batch", 6, context=10)(torch.zeros(1, 1, 6), 10)
    with pytest.raises(ValueError, match="11 tokens exceed the context of 10"):
        BatchNorm(6, context=10)(torch.zeros(1, 11, 6))


def test_an_empty_batch_does_not_change_running_statistics() -> None:
    norm = BatchNorm(6, context=10)
    assert norm(torch.zeros(0, 3, 6)).shape == (0, 3, 6)
    assert (norm.running_mean == 0).all()
    assert (norm.running_variance == 1).all()


def test_batch_norm_accepts_half_precision() -> None:
    norm = BatchNorm(6, context=10)
    norm(torch.randn(4, 3, 6, dtype=torch.bfloat16))
    assert norm.running_mean.isfinite().all()
    assert norm.running_mean.dtype == torch.float32


def test_unknown_kinds_raise_an_error() -> None:
    with pytest.raises(ValueError, match="norm should be one of 'layer', 'batch', got 'lyer'"):
        make_norm("lyer", 6, 10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="placement should be one of 'pre', 'post', got 'prae'"):
        Residual(LayerNorm(6), "prae")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["layer", "batch"])
def test_equal_values_give_no_nan(kind) -> None:
    x = torch.ones(1, 3, 6, requires_grad=True)
    normed = make_norm(kind, 6, context=10)(x)
    normed.sum().backward()
    assert normed.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("kind", ["layer", "batch"])
def test_wrong_widths_raise_an_error(kind) -> None:
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 6\), got \(1, 3, 7\)"):
        make_norm(kind, 6, context=10)(torch.zeros(1, 3, 7))


def test_pre_norm_is_before_the_sublayer_and_post_norm_after_the_sum() -> None:
    x, sublayer = torch.randn(2, 3, 6, dtype=torch.float64), nn.Linear(6, 6).double()
    norm = randomise(LayerNorm(6))
    assert_same(Residual(norm, "pre")(x, sublayer), x + sublayer(norm(x)))
    assert_same(Residual(norm, "post")(x, sublayer), norm(x + sublayer(x)))


def test_dropout_applies_to_the_sublayer_and_not_to_the_residual() -> None:
    x = torch.ones(1, 100, 6)
    added = Residual(nn.Identity(), "pre", dropout=0.5)
    added.norm = LayerNorm(6)
    with torch.no_grad():
        added.norm.weight.zero_()
        added.norm.bias.fill_(1.0)
    assert set(added(x, nn.Identity()).unique().tolist()) == {1.0, 3.0}
    assert set(added.eval()(x, nn.Identity()).unique().tolist()) == {2.0}


def test_dropout_with_post_norm_applies_to_the_sublayer_only() -> None:
    class Doubling(nn.Module):
        def forward(self, x: torch.Tensor, _start: int) -> torch.Tensor:
            return 2 * x

    doubled = Residual(Doubling(), "post", dropout=0.5)(torch.ones(1, 100, 6), nn.Identity())
    assert set(doubled.unique().tolist()) == {2.0, 6.0}
