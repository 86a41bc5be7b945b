from itertools import product

import pytest
import torch
from hypothesis import given, settings

from helpers import randomise, seeds
from regard.decoding.beam import Beam
from regard.decoding.length_limit import LengthLimited
from regard.decoding.sampling import Sampling
from regard.models.gpt2 import Gpt2, Gpt2Config

PROMPT = [0, 2, 1]


def make(seed: int) -> Gpt2:
    torch.manual_seed(seed)
    return randomise(Gpt2Config(vocab_size=3, width=8, heads=2, ff_width=8, layers=1, context=9).build()).eval()


@settings(max_examples=10)
@given(seeds)
@pytest.mark.parametrize("end", [2, 3])  # in the vocabulary, or beyond it
@torch.no_grad()
def test_a_wide_beam_is_exhaustive_search_over_texts_truncated_at_no_cost(end, seed) -> None:
    model = make(seed)
    bounded = LengthLimited(model, 3, 3, end)
    (found,) = Beam(PROMPT[-1], end, 60, 4).search(bounded, (torch.tensor([PROMPT[:-1]]),), [3])
    words = [token for token in range(3) if token != end]
    ranked = []
    for size in range(4) if end == 2 else (3,):
        for text in product(words, repeat=size):
            target = (*text, *(() if size == 3 else (end,)))
            logs = model(torch.tensor([[*PROMPT, *target]])).log_softmax(-1)[0, len(PROMPT) - 1 :]
            ranked.append((sum(float(logs[i, token]) for i, token in enumerate(target)) / (size + 1), text))
    ranked.sort(reverse=True)
    assert [h.tokens for h in found] == [text for _, text in ranked[:4]]
    assert [h.score for h in found] == pytest.approx([score for score, _ in ranked[:4]])


def test_the_model_is_not_run_beyond_the_limit() -> None:
    model = make(0)
    (found,) = Sampling(PROMPT[-1], 3, samples=3).search(
        LengthLimited(model, 7, 3, 3), (torch.tensor([PROMPT[:-1]]),), [7]
    )
    for hypothesis in found:  # one step more would exceed the context
        assert len(hypothesis.tokens) == 7
        assert hypothesis.truncated
        assert hypothesis.token_scores[-1] == 0


class Adding:
    """Starts from two inputs and always returns their sum."""

    def start(self, one_B: torch.Tensor, other_B: torch.Tensor) -> "Sum":
        return Sum(one_B + other_B)

    def step(self, _tokens_B: torch.Tensor, state: "Sum") -> tuple[torch.Tensor, "Sum"]:
        return torch.nn.functional.one_hot(state.sum_B, 20) * 99.0, state


class Sum:
    def __init__(self, sum_B: torch.Tensor) -> None:
        self.sum_B = sum_B

    def reorder(self, index_B: torch.Tensor) -> "Sum":
        return Sum(self.sum_B[index_B])


@pytest.mark.parametrize("how", [Beam(0, 1, 2), Sampling(0, 1, temperature=0.0)])
def test_all_inputs_of_a_model_are_passed_on(how) -> None:
    inputs = torch.tensor([3, 4]), torch.tensor([10, 5])
    for model in (Adding(), LengthLimited(Adding(), 3, 20, 1)):
        found = how.search(model, inputs, [3, 3])
        assert [best[0].tokens for best in found] == [(13,) * 3, (9,) * 3]
