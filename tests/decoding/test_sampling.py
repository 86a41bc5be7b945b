import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import padded_tokens, randomise, seeds
from regard.decoding.beam import Beam
from regard.decoding.sampling import Sampling
from regard.models.transformer import Transformer, TransformerConfig

BEGIN, END, VOCABULARY = 1, 2, 9


def make(seed: int) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocab_size=VOCABULARY, width=8, heads=2, ff_width=8, encoder_layers=1, decoder_layers=1, norm_placement="post"
    )
    return randomise(config.build()).eval()


def shares(how: Sampling, probabilities: list[float], draws: int = 10_000) -> list[float]:
    """How often each token is chosen when the numbers drawn are spread evenly."""
    logs = torch.tensor([probabilities], dtype=torch.float64).log().expand(draws, -1)
    even = (torch.arange(draws, dtype=torch.float64) + 0.5) / draws
    return (how.choose(logs, even).bincount(minlength=len(probabilities)) / draws).tolist()


P = [0.1, 0.4, 0.2, 0.3]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, P),
        ({"temperature": 0.5}, [p**2 / sum(q**2 for q in P) for p in P]),
        ({"temperature": 0.0}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 100}, P),
        ({"top_p": 0.65}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.75}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 0.01}, [0, 1, 0, 0]),
        ({"top_p": 0.95, "top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
    ],
)
def test_tokens_are_drawn_by_their_probability(how, expected) -> None:
    assert shares(Sampling(BEGIN, END, **how), P) == pytest.approx(expected, abs=1e-3)


def test_the_largest_number_that_can_be_drawn_is_a_token_that_is_kept() -> None:
    logs = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log()
    last = torch.tensor([math.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert Sampling(BEGIN, END).choose(logs, last).item() == 1
    assert Sampling(BEGIN, END, top_k=1).choose(logs, last).item() == 0


@settings(max_examples=10)
@given(seeds)
def test_without_temperature_it_is_greedy_search(seed) -> None:
    model, source = make(seed), padded_tokens([4, 1, 3], VOCABULARY)
    greedy = Beam(BEGIN, END, width=1, penalty=1.0).search(model, source, [5, 5, 2])
    drawn = Sampling(BEGIN, END, temperature=0.0).search(model, source, [5, 5, 2])
    for one, other in zip(greedy, drawn, strict=True):
        assert one[0].tokens == other[0].tokens
        assert one[0].cut == other[0].cut
        assert one[0].score == pytest.approx(other[0].score)
        assert one[0].token_scores == pytest.approx(other[0].token_scores)


@settings(max_examples=10)
@given(seeds, st.integers(0, 5))
def test_a_try_is_the_same_alone_and_among_others(seed, attempt) -> None:
    model, source = make(seed), padded_tokens([4, 2], VOCABULARY)
    together = Sampling(BEGIN, END, tries=6, seed=seed).search(model, source, [8, 8])
    for row, length in enumerate([4, 2]):
        (alone,) = Sampling(BEGIN, END, tries=attempt + 1, seed=seed).search(model, source[row : row + 1, :length], [8])
        assert together[row][attempt].tokens == alone[-1].tokens
    assert len({hypothesis.tokens for hypothesis in together[0]}) > 1


def test_a_prefix_is_kept_and_its_probability_counted() -> None:
    model, source = make(1), padded_tokens([4, 2], VOCABULARY)
    first, second = Sampling(BEGIN, END, tries=2).search(model, source, [6, 6], [[5, 6, 7], []])
    assert all(hypothesis.tokens[:3] == (5, 6, 7) for hypothesis in first)
    assert first[0].token_scores[:3] == pytest.approx(first[1].token_scores[:3])
    assert len(first[0].token_scores) == len(first[0].tokens) + 1
    assert second[0].tokens[:3] != (5, 6, 7)


def test_nothing_to_write_is_nothing_written() -> None:
    assert Sampling(BEGIN, END).search(make(1), torch.zeros(0, 3, dtype=torch.long), []) == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"tries": 0}, "at least one try"),
        ({"temperature": -1.0}, "temperature is at least 0"),
        ({"top_k": 0}, "top-k keeps at least one token, got 0"),
        ({"top_p": 0.0}, "top-p is a probability above 0 and at most 1, got 0.0"),
        ({"top_p": 1.5}, "top-p is a probability above 0 and at most 1, got 1.5"),
    ],
)
def test_impossible_ways_to_draw_are_told(how, message) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(BEGIN, END, **how)
