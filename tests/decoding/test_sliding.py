import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import assert_same, randomise, seeds
from regard.decoding.sliding import Sliding, dropped
from regard.models.gpt2 import Gpt2, Gpt2Config


def make(seed: int, context: int) -> Gpt2:
    torch.manual_seed(seed)
    return randomise(Gpt2Config(vocab_size=9, width=8, heads=2, ff_width=8, layers=2, context=context).build()).eval()


@settings(max_examples=10)
@given(seeds, st.integers(1, 7), st.integers(0, 20))
@torch.no_grad()
def test_logits_beyond_the_context_equal_those_of_the_sliding_window(seed, context, first) -> None:
    model, text = make(seed, context), torch.randint(9, (2, 21))
    sliding = Sliding(model, context)
    state = sliding.start(text[:, :first])
    begins = 0  # start of the window
    for place in range(21):
        if place - begins == context:
            begins += (context + 1) // 2
        if place >= first:
            state = state.reorder(torch.tensor([1, 0]))
            text = text.flip(0)
            logits, state = sliding.step(text[:, place], state)
            assert_same(logits, model(text[:, begins : place + 1])[:, -1])


@pytest.mark.parametrize(("length", "context", "expected"), [(8, 8, 0), (9, 8, 4), (12, 8, 4), (13, 8, 8), (3, 1, 2)])
def test_a_full_window_drops_its_older_half(length, context, expected) -> None:
    assert dropped(length, context) == expected
