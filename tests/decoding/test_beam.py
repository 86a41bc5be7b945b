from itertools import product
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import padded, padded_tokens, randomise, seeds
from regard.decoding.beam import Beam
from regard.models.transformer import Transformer, TransformerConfig

BEGIN, END, VOCABULARY = 1, 2, 5


def make(seed: int, vocab_size: int = VOCABULARY) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocab_size=vocab_size, width=8, heads=2, ff_width=8, encoder_layers=1, decoder_layers=1, norm_placement="post"
    )
    return randomise(config.build()).eval()


def search(model: Transformer, inputs: Any, max_length: list[int], prefixes: Any = (), **how: Any) -> list[Any]:
    return Beam(BEGIN, END, **how).search(model, inputs, max_length, prefixes)


@torch.no_grad()
def log_probability(model: Transformer, source: torch.Tensor, tokens: tuple[int, ...]) -> float:
    logs = model(source, torch.tensor([[BEGIN, *tokens]])).log_softmax(-1)[0]
    return sum(float(logs[i, token]) for i, token in enumerate((*tokens, END)))


@torch.no_grad()
def greedy(model: Transformer, source: torch.Tensor, max_length: int) -> tuple[int, ...]:
    tokens: list[int] = []
    while len(tokens) < max_length:
        token = int(model(source, torch.tensor([[BEGIN, *tokens]]))[0, -1].argmax())
        if token == END:
            break
        tokens.append(token)
    return tuple(tokens)


@torch.no_grad()
def plain_beam_search(model: Transformer, source: torch.Tensor, max_length: int, how: Beam) -> list[tuple[int, ...]]:
    """A plain beam search, one text at a time."""
    beam: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    found: list[tuple[float, tuple[int, ...]]] = []
    for length in range(max_length + 1):
        places, candidates = how.width - len(found), []
        for total, tokens in beam:
            logs = model(source, torch.tensor([[BEGIN, *tokens]]))[0, -1].log_softmax(-1).tolist()
            candidates += [
                (total + log, (*tokens, token)) for token, log in enumerate(logs) if length < max_length or token == END
            ]
        best = sorted(candidates, reverse=True)[: 2 * how.width]
        found += [
            (total / (length + 1) ** how.length_penalty, tokens[:-1])
            for rank, (total, tokens) in enumerate(best)
            if tokens[-1] == END and rank < places
        ]
        beam = [each for each in best if each[1][-1] != END][: how.width - len(found)]
        found.sort(reverse=True)
        if not beam or (
            len(found) >= how.n_best and beam[0][0] / (max_length + 1) ** how.length_penalty <= found[how.n_best - 1][0]
        ):
            break
    return [tokens for _, tokens in found[: how.n_best]]


@settings(max_examples=40)
@given(seeds, st.integers(1, 4), st.data())
def test_a_narrow_beam_agrees_with_a_plain_implementation(seed, width, data) -> None:
    how = Beam(BEGIN, END, width, data.draw(st.integers(1, width)), data.draw(st.sampled_from([0.0, 0.6, 1.0, 2.0])))
    model, lengths, max_length = make(seed, vocab_size=9), [3, 1, 2], [5, 2, 8]
    with torch.no_grad():
        model.target_embedding.weight[END] *= 2  # texts of different lengths
    source, is_padding = padded(lengths, 9)
    found = how.search(model, (source, is_padding), max_length)
    for row, length in enumerate(lengths):
        expected = plain_beam_search(model, source[row : row + 1, :length], max_length[row], how)
        assert [hypothesis.tokens for hypothesis in found[row]] == expected


@settings(max_examples=10)
@given(seeds, st.sampled_from([0.0, 0.6, 1.0]))
def test_a_beam_wide_enough_to_keep_all_is_exhaustive_search(seed, length_penalty) -> None:
    model, lengths, max_length = make(seed), [3, 1], 3
    source, is_padding = padded(lengths, VOCABULARY)
    words = [token for token in range(VOCABULARY) if token != END]
    found = search(
        model,
        (source, is_padding),
        [max_length] * 2,
        width=2 * VOCABULARY**max_length,
        n_best=5,
        length_penalty=length_penalty,
    )
    for row, length in enumerate(lengths):
        alone = source[row : row + 1, :length]
        every = [text for size in range(max_length + 1) for text in product(words, repeat=size)]
        ranked = sorted(
            ((log_probability(model, alone, text) / (len(text) + 1) ** length_penalty, text) for text in every),
            reverse=True,
        )
        assert [h.tokens for h in found[row]] == [text for _, text in ranked[:5]]
        assert [h.score for h in found[row]] == pytest.approx([score for score, _ in ranked[:5]], abs=1e-9)


@given(seeds)
def test_a_beam_of_one_is_greedy(seed) -> None:
    model, lengths = make(seed, 12), [4, 2, 1]
    source, is_padding = padded(lengths, 12)
    found = search(model, (source, is_padding), [6, 5, 4], width=1)
    for row, (length, max_length) in enumerate(zip(lengths, (6, 5, 4), strict=True)):
        assert found[row][0].tokens == greedy(model, source[row : row + 1, :length], max_length)


@given(seeds, st.permutations(range(4)))
def test_results_do_not_depend_on_batch_or_order(seed, order) -> None:
    model, lengths = make(seed, 12), [4, 2, 1, 3]
    source, is_padding = padded(lengths, 12)
    limits = [2 * length + 1 for length in lengths]
    together = search(model, (source[order], is_padding[order]), [limits[i] for i in order], width=3, n_best=3)
    for place, i in enumerate(order):
        (alone,) = search(model, (source[i : i + 1, : lengths[i]],), [limits[i]], width=3, n_best=3)
        assert [h.tokens for h in together[place]] == [h.tokens for h in alone]


@given(seeds)
def test_n_best_does_not_change_the_best(seed) -> None:
    model, inputs = make(seed, 12), padded([4, 2], 12)
    best, more = (search(model, inputs, [6, 6], width=4, n_best=n) for n in (1, 4))
    for one, several in zip(best, more, strict=True):
        assert one == several[:1]
        assert len(several) == 4
        assert len({h.tokens for h in several}) == 4
        assert [h.score for h in several] == sorted((h.score for h in several), reverse=True)


@given(seeds)
def test_scores_are_those_of_the_model(seed) -> None:
    model, source = make(seed, 12), padded_tokens([3], 12)
    for hypothesis in search(model, (source,), [5], width=3, n_best=3, length_penalty=0.7)[0]:
        total = log_probability(model, source, hypothesis.tokens)
        assert sum(hypothesis.token_scores) == pytest.approx(total, abs=1e-9)
        assert len(hypothesis.token_scores) == len(hypothesis.tokens) + 1
        assert hypothesis.score == pytest.approx(total / (len(hypothesis.tokens) + 1) ** 0.7, abs=1e-9)
        assert hypothesis.truncated == (len(hypothesis.tokens) == 5)


@given(seeds)
def test_a_text_begins_with_its_prefix(seed) -> None:
    model, source = make(seed, 12), padded_tokens([3, 3, 3], 12)
    prefixes = [[7, 3, 9], [], [END]]
    found = search(model, (source,), [6, 6, 6], prefixes, width=3, n_best=1)
    assert found[0][0].tokens[:3] == (7, 3, 9)
    assert found[1][0].tokens == search(model, (source[1:2],), [6], width=3)[0][0].tokens
    assert found[2][0].tokens == ()


def test_the_maximum_length_is_respected_and_may_be_zero() -> None:
    model, source = make(0, 12), padded_tokens([3, 3], 12)
    found = search(model, (source,), [0, 2], width=3, n_best=2)
    assert [h.tokens for h in found[0]] == [()]
    assert all(len(h.tokens) <= 2 for h in found[1])
    assert search(model, (source[:0],), []) == []


def test_weights_that_are_nan_are_reported() -> None:
    model, source = make(0, 12), padded_tokens([3, 3], 12)
    model.target_embedding.weight.data.fill_(torch.nan)
    with pytest.raises(ValueError, match="check the weights of the model for NaN or infinity"):
        search(model, (source,), [5, 5])


def test_invalid_beams_are_errors() -> None:
    with pytest.raises(ValueError, match="with a beam of 2, n_best must be from 1 to 2, got 3"):
        Beam(BEGIN, END, width=2, n_best=3)
    for length_penalty in (-1, 11, float("nan")):
        with pytest.raises(ValueError, match=f"the length penalty must be from 0 to 10, got {length_penalty}"):
            Beam(BEGIN, END, length_penalty=length_penalty)
    with pytest.raises(ValueError, match="a beam of 0"):
        Beam(BEGIN, END, width=0)
