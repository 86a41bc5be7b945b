import pytest
import torch

from regard.blocks.dropout import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_rate_is_rounded_to_256ths_and_the_mean_is_kept(rate) -> None:
    x = torch.ones(1000, 1000)
    y = Dropout(rate)(x)
    taken = round(rate * 256) / 256
    # a million samples: five standard errors are at most 0.0025, divided by the fraction kept
    assert (y == 0).float().mean().item() == pytest.approx(taken, abs=0.0025)
    assert y.mean().item() == pytest.approx(1, abs=0.0025 / (1 - taken))
    assert y.unique().tolist() == [0.0, pytest.approx(1 / (1 - taken))]


def test_each_byte_of_a_random_number_has_the_same_rate() -> None:
    # eight elements share one random number; if its sign bit were never set, the eighth would be dropped twice as often
    dropped = (Dropout(0.5)(torch.ones(400_000)) == 0).view(-1, 8).float().mean(0)
    # 50,000 samples: five standard errors
    assert (dropped - 0.5).abs().max() < 0.0112


def test_gradients_have_the_same_dropout_mask_as_the_output() -> None:
    x = torch.randn(7, 5, requires_grad=True)
    y = Dropout(0.4)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_dropout_is_reproducible_by_seed() -> None:
    x, dropout = torch.ones(100), Dropout(0.5)
    torch.manual_seed(1)
    first = dropout(x)
    assert not torch.equal(dropout(x), first)
    torch.manual_seed(1)
    assert torch.equal(dropout(x), first)


def test_dropout_is_the_identity_in_evaluation_and_at_rate_zero() -> None:
    x = torch.randn(5, 5)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x


@pytest.mark.parametrize("rate", [-0.1, 1.0, float("nan")])
def test_invalid_rates_raise_an_error(rate) -> None:
    with pytest.raises(ValueError, match="a dropout rate must be at least 0 and less than 1"):
        Dropout(rate)


def test_a_very_high_rate_does_not_drop_everything() -> None:
    assert (Dropout(0.9999)(torch.ones(100_000)) > 0).any()
