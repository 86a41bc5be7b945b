import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import padded, padded_tokens, randomise, seeds
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
    """The frequency of each token when the random numbers are evenly spaced."""
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
        ({"min_p": 0.6}, [0, 4 / 7, 0, 3 / 7]),
        (
            {"min_p": 0.6, "temperature": 2.0},
            [0, 2 / (2 + 3**0.5 + 2**0.5), *(x**0.5 / (2 + 3**0.5 + 2**0.5) for x in (2, 3))],
        ),
        ({"min_p": 1.0}, [0, 1, 0, 0]),
        ({"temperature": 1e-310}, [0, 1, 0, 0]),
    ],
)
def test_tokens_are_sampled_by_their_probability(how, expected) -> None:
    assert shares(Sampling(BEGIN, END, **how), P) == pytest.approx(expected, abs=1e-3)


@given(
    st.lists(st.integers(1, 1000), min_size=1, max_size=12),
    st.sampled_from([0.3, 1.0, 2.0]),
    st.integers(1, 12),
    st.floats(0.01, 1.0),
    st.floats(0.0, 1.0),
)
def test_only_tokens_that_pass_every_filter_are_sampled(weights, temperature, top_k, top_p, min_p) -> None:
    how = Sampling(BEGIN, END, temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    sampled = {token for token, share in enumerate(shares(how, weights, 3000)) if share}
    heated = [weight ** (1 / temperature) for weight in weights]
    p = [x / sum(heated) for x in heated]
    order = sorted(range(len(p)), key=lambda i: -p[i])
    before = {i: sum(p[j] for j in order[:place]) for place, i in enumerate(order)}
    slack = 1e-9  # exactly at a limit, a token may be kept or dropped

    def kept(slack: float) -> set[int]:
        likely = {i for i in p_of if before[i] < top_p + slack and p[i] >= min_p * max(p) - slack}
        return likely & set(order[:top_k]) | {order[0]}

    p_of = range(len(p))
    assert sampled <= kept(slack)
    assert {i for i in kept(-slack) if p[i] > 1e-3} <= sampled  # less probable tokens may fall between two numbers


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=4), st.lists(st.integers(0, 3)), st.floats(0.5, 3))
def test_the_repetition_penalty_divides_or_multiplies_logits(logits, text, repetition_penalty) -> None:
    how = Sampling(BEGIN, END, repetition_penalty=repetition_penalty)
    changed = how.penalised(torch.tensor([logits, logits], dtype=torch.float64), [text, []])
    expected = [
        x if i not in text else x / repetition_penalty if x > 0 else x * repetition_penalty
        for i, x in enumerate(logits)
    ]
    assert changed[0].tolist() == pytest.approx(expected)
    assert changed[1].tolist() == logits


def test_the_largest_random_number_gives_a_kept_token() -> None:
    logs = torch.tensor([[0.5, 0.5, 0.0]], dtype=torch.float64).log()
    last = torch.tensor([math.nextafter(1.0, 0.0)], dtype=torch.float64)
    assert Sampling(BEGIN, END).choose(logs, last).item() == 1
    assert Sampling(BEGIN, END, top_k=1).choose(logs, last).item() == 0


@settings(max_examples=10)
@given(seeds)
def test_temperature_zero_is_greedy_search(seed) -> None:
    model, inputs = make(seed), padded([4, 1, 3], VOCABULARY)
    greedy = Beam(BEGIN, END, width=1, length_penalty=1.0).search(model, inputs, [5, 5, 2])
    sampled = Sampling(BEGIN, END, temperature=0.0).search(model, inputs, [5, 5, 2])
    for one, other in zip(greedy, sampled, strict=True):
        assert one[0].tokens == other[0].tokens
        assert one[0].truncated == other[0].truncated
        assert one[0].score == pytest.approx(other[0].score)
        assert one[0].token_scores == pytest.approx(other[0].token_scores)


@settings(max_examples=10)
@given(seeds, st.integers(0, 5))
def test_a_sample_does_not_depend_on_the_others(seed, sample) -> None:
    model, inputs = make(seed), padded([4, 2], VOCABULARY)
    together = Sampling(BEGIN, END, samples=6, seed=seed).search(model, inputs, [8, 8])
    for row, length in enumerate([4, 2]):
        (alone,) = Sampling(BEGIN, END, samples=sample + 1, seed=seed).search(
            model, (inputs[0][row : row + 1, :length],), [8]
        )
        assert together[row][sample].tokens == alone[-1].tokens
        (other,) = Sampling(BEGIN, END, seed=seed + sample).search(model, (inputs[0][row : row + 1, :length],), [8])
        assert together[row][sample].tokens == other[0].tokens
    assert len({hypothesis.tokens for hypothesis in together[0]}) > 1


@settings(max_examples=10)
@given(seeds)
@torch.no_grad()
def test_the_repetition_penalty_changes_tokens_but_not_scores(seed) -> None:
    model, source = make(seed), padded_tokens([4], VOCABULARY)
    ((found,),) = Sampling(BEGIN, END, temperature=0.0, repetition_penalty=3.0).search(
        model, (source,), [6], before=[[5]]
    )
    logits = model(source, torch.tensor([[BEGIN, *found.tokens]]))[0]
    target = found.tokens if found.truncated else (*found.tokens, END)
    for i, token in enumerate(target):
        changed = [
            x if t not in {5, *target[:i]} else x / 3 if x > 0 else x * 3 for t, x in enumerate(logits[i].tolist())
        ]
        assert token == max(range(VOCABULARY), key=changed.__getitem__)
    logs = logits.log_softmax(-1)
    assert found.token_scores == pytest.approx([float(logs[i, t]) for i, t in enumerate((*found.tokens, END))])


@settings(max_examples=10)
@given(seeds)
def test_a_stopped_text_does_not_affect_the_others(seed) -> None:
    model, inputs = make(seed), padded([4, 2], VOCABULARY)
    how = Sampling(BEGIN, END, samples=4, seed=seed)
    free = how.search(model, inputs, [8, 8])
    halted = how.search(model, inputs, [8, 8], stopped=lambda tokens: tokens[-1] == 5)
    for one, other in zip(free, halted, strict=True):
        for whole, part in zip(one, other, strict=True):
            length = whole.tokens.index(5) + 1 if 5 in whole.tokens else None
            assert part.tokens == whole.tokens[:length]
            assert part.stopped == (5 in whole.tokens)
            assert len(part.token_scores) == len(part.tokens) + (not part.stopped)
            assert part.token_scores == pytest.approx(whole.token_scores[:length])


def test_tokens_are_yielded_step_by_step_and_rows_copied_only_on_change() -> None:
    copied: list[list[int]] = []

    class DecodingState:
        def reorder(self, index: torch.Tensor) -> "DecodingState":
            copied.append(index.tolist())
            return self

    class Counting:
        """Predicts, in each row, the token after the last one."""

        def start(self, _inputs: torch.Tensor) -> DecodingState:
            return DecodingState()

        def step(self, tokens: torch.Tensor, state: DecodingState) -> tuple[torch.Tensor, DecodingState]:
            return torch.nn.functional.one_hot(tokens + 1, 20) * 9.0, state

    nothing = torch.zeros(3, 0, dtype=torch.long)
    how = Sampling(BEGIN, 9, temperature=0.0)
    sampled = [
        (x.sentence, x.token) for x in how.draw(Counting(), (nothing,), [9, 2, 9], stopped=lambda x: len(x) == 4)
    ]
    assert sampled == [
        (0, 2), (1, 2), (2, 2), (0, 3), (1, 3), (2, 3), (0, 4), (1, 9), (2, 4), (0, 5), (2, 5),
    ]  # fmt: skip
    assert copied == [[0, 2]]
    list(Sampling(BEGIN, 9, samples=2, temperature=0.0).draw(Counting(), (nothing[:1],), [3]))
    assert copied[1:] == [[0, 0]]


def test_a_prefix_is_kept_and_scored() -> None:
    model, inputs = make(1), padded([4, 2], VOCABULARY)
    first, second = Sampling(BEGIN, END, samples=2).search(model, inputs, [6, 6], [[5, 6, 7], []])
    assert all(hypothesis.tokens[:3] == (5, 6, 7) for hypothesis in first)
    assert first[0].token_scores[:3] == pytest.approx(first[1].token_scores[:3])
    assert len(first[0].token_scores) == len(first[0].tokens) + 1
    assert second[0].tokens[:3] != (5, 6, 7)


def test_an_empty_batch_gives_an_empty_list() -> None:
    assert Sampling(BEGIN, END).search(make(1), (torch.zeros(0, 3, dtype=torch.long),), []) == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"samples": 0}, "the number of samples must be at least 1, got 0"),
        ({"temperature": -1.0}, "the temperature must be at least 0"),
        ({"temperature": math.nan}, "the temperature must be at least 0, got nan"),
        ({"min_p": -0.1}, "min-p must be from 0 to 1, got -0.1"),
        ({"min_p": 1.1}, "min-p must be from 0 to 1, got 1.1"),
        ({"repetition_penalty": 0.0}, r"the repetition penalty must be above 0 \(1 for none\), got 0.0"),
        ({"seed": -1}, "seeds must be from 0 to 4294967295, one per sample; got -1 for 1"),
        ({"seed": 2**32 - 1, "samples": 2}, "seeds must be from 0 to 4294967295, one per sample; got 4294967295 for 2"),
        ({"top_k": 0}, "top-k must be at least 1, got 0"),
        ({"top_p": 0.0}, "top-p must be above 0 and at most 1, got 0.0"),
        ({"top_p": 1.5}, "top-p must be above 0 and at most 1, got 1.5"),
    ],
)
def test_invalid_settings_are_errors(how, message) -> None:
    with pytest.raises(ValueError, match=message):
        Sampling(BEGIN, END, **how)
