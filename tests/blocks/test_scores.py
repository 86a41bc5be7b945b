import pytest
import torch

from helpers import assert_same, randomise
from regard.blocks.scores import AdditiveScore, DotScore, LocationAwareScore, ScoredAttention

MAKERS = {
    "dot": lambda: DotScore(3, 5, scaled=False),
    "scaled dot": lambda: DotScore(3, 5, scaled=True),
    "additive": lambda: AdditiveScore(3, 5, 4),
    "location-aware": lambda: LocationAwareScore(3, 5, 4, channels=2, kernel=3),
}


@pytest.mark.parametrize("name", MAKERS)
def test_padding_does_not_change_context_and_weights(name) -> None:
    attention = randomise(ScoredAttention(MAKERS[name]()))
    memory, query = torch.randn(1, 6, 5, dtype=torch.float64), torch.randn(1, 1, 3, dtype=torch.float64)
    previous = torch.rand(1, 6, dtype=torch.float64)
    is_padding = torch.tensor([[False] * 4 + [True] * 2])
    previous[is_padding] = 0.0
    padded = attention(query, attention.remember(memory, is_padding), previous)
    plain = attention(query, attention.remember(memory[:, :4], is_padding[:, :4]), previous[:, :4])
    assert_same(padded[0], plain[0])
    assert_same(padded[1][:, :4], plain[1])


@pytest.mark.parametrize("name", MAKERS)
def test_a_fully_padded_memory_gives_zeros(name) -> None:
    attention = ScoredAttention(MAKERS[name]())
    memory = attention.remember(torch.randn(1, 6, 5), torch.ones(1, 6, dtype=torch.bool))
    context, weights = attention(torch.randn(1, 1, 3), memory, attention.begin(memory))
    assert (context == 0).all()
    assert (weights == 0).all()


def test_many_queries_at_once_equal_one_by_one() -> None:
    for name in ("dot", "scaled dot", "additive"):
        attention = randomise(ScoredAttention(MAKERS[name]()))
        memory = attention.remember(torch.randn(2, 6, 5, dtype=torch.float64), torch.zeros(2, 6, dtype=torch.bool))
        queries, begin = torch.randn(2, 4, 3, dtype=torch.float64), attention.begin(memory)
        together, weights = attention(queries, memory, begin)
        one_by_one = [attention(query, memory, begin) for query in queries.split(1, dim=1)]
        assert_same(together, torch.cat([context for context, _ in one_by_one], dim=1))
        assert_same(weights, one_by_one[-1][1])


def test_location_aware_attention_can_depend_on_previous_weights_only() -> None:
    # the score ignores content, and its filter reads the previous position: attention moves one step to the right
    score = LocationAwareScore(3, 5, 1, channels=1, kernel=3).double()
    for parameter in score.parameters():
        torch.nn.init.zeros_(parameter)
    with torch.no_grad():
        score.filters.weight[0, 0] = torch.tensor([1.0, 0.0, 0.0])
        score.location.weight.fill_(10.0)
        score.energy.weight.fill_(50.0)
    attention = ScoredAttention(score)
    memory = attention.remember(torch.randn(1, 6, 5, dtype=torch.float64), torch.zeros(1, 6, dtype=torch.bool))
    weights = torch.zeros(1, 6, dtype=torch.float64)
    weights[0, 0] = 1.0
    for step in range(1, 6):
        _, weights = attention(torch.randn(1, 1, 3, dtype=torch.float64), memory, weights)
        assert weights[0, step] > 0.999


def test_parameters_are_those_of_the_equations_of_the_papers() -> None:
    assert set(dict(AdditiveScore(3, 5, 4).named_parameters())) == {"query.weight", "key.weight", "energy.weight"}
    score = LocationAwareScore(3, 5, 4)
    assert set(dict(score.named_parameters())) == {
        "query.weight", "query.bias", "key.weight", "filters.weight", "location.weight", "energy.weight",
    }  # fmt: skip
    assert score.filters.weight.shape == (10, 1, 31)


def test_wrong_shapes_raise_an_error() -> None:
    attention = ScoredAttention(MAKERS["location-aware"]())
    memory = attention.remember(torch.randn(2, 6, 5), torch.zeros(2, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"query should have shape \(batch, 1, width\), got \(2, 4, 3\)"):
        attention(torch.randn(2, 4, 3), memory, attention.begin(memory))
    with pytest.raises(ValueError, match=r"query should have shape \(2, length, 3\), got \(3, 1, 3\)"):
        attention(torch.randn(3, 1, 3), memory, attention.begin(memory))
    with pytest.raises(ValueError, match=r"memory should have shape \(2, 5, 5\), got \(2, 6, 5\)"):
        attention.remember(torch.randn(2, 6, 5), torch.zeros(2, 5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"previous should have shape \(2, 6\), got \(1, 6\)"):
        attention(torch.randn(2, 1, 3), memory, attention.begin(memory)[:1])
    with pytest.raises(ValueError, match="a kernel of size 4 has no centre"):
        LocationAwareScore(3, 5, 4, kernel=4)
