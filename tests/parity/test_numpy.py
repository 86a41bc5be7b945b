"""Recurrent attention, compared with the equations of the papers written in NumPy."""

import numpy as np
import pytest
import torch

from helpers import assert_same, randomise
from regard.blocks.recurrent import AttentiveCell, RecurrentEncoder
from regard.blocks.scores import AdditiveScore, DotScore, LocationAwareScore, ScoredAttention

QUERY, MEMORY, WIDTH = 3, 5, 4
LENGTHS = [6, 4]


def array(tensor: torch.Tensor) -> np.ndarray:
    return tensor.detach().numpy()


def softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max())
    return powers / powers.sum()


def additive(score: AdditiveScore, s: np.ndarray, h: np.ndarray, _previous: np.ndarray) -> np.ndarray:
    w, u, v = array(score.query.weight), array(score.key.weight), array(score.energy.weight)[0]
    return np.array([v @ np.tanh(w @ s + u @ h_i) for h_i in h])


def location_aware(score: LocationAwareScore, s: np.ndarray, h: np.ndarray, previous: np.ndarray) -> np.ndarray:
    w, b, u = array(score.query.weight), array(score.query.bias), array(score.key.weight)
    z, v = array(score.location.weight), array(score.energy.weight)[0]
    filters = array(score.filters.weight)[:, 0]
    reach = filters.shape[1] // 2
    padded = np.pad(previous, reach)
    scores = []
    for i, h_i in enumerate(h):
        f_i = filters @ padded[i : i + 2 * reach + 1]
        scores.append(v @ np.tanh(w @ s + u @ h_i + z @ f_i + b))
    return np.array(scores)


def dot(score: DotScore, s: np.ndarray, h: np.ndarray, _previous: np.ndarray) -> np.ndarray:
    return h @ (array(score.query.weight) @ s)


def scaled_dot(score: DotScore, s: np.ndarray, h: np.ndarray, previous: np.ndarray) -> np.ndarray:
    return dot(score, s, h, previous) / np.sqrt(MEMORY)


SCORES = {
    "dot": (lambda: DotScore(QUERY, MEMORY, scaled=False), dot),
    "scaled dot": (lambda: DotScore(QUERY, MEMORY, scaled=True), scaled_dot),
    "additive": (lambda: AdditiveScore(QUERY, MEMORY, WIDTH), additive),
    "location-aware": (lambda: LocationAwareScore(QUERY, MEMORY, WIDTH, channels=2, kernel=3), location_aware),
}


@pytest.mark.parametrize("name", SCORES)
def test_scored_attention_equals_the_equations_of_the_papers(name) -> None:
    make, transcription = SCORES[name]
    attention = randomise(ScoredAttention(make()))
    memory = torch.randn(2, 6, MEMORY, dtype=torch.float64)
    is_padding = torch.arange(6) >= torch.tensor(LENGTHS)[:, None]
    query = torch.randn(2, 1, QUERY, dtype=torch.float64)
    previous = torch.rand(2, 6, dtype=torch.float64).masked_fill(is_padding, 0.0)
    context, weights = attention(query, attention.remember(memory, is_padding), previous)
    for row, length in enumerate(LENGTHS):
        h = array(memory[row, :length])
        expected = softmax(transcription(attention.score, array(query[row, 0]), h, array(previous[row, :length])))
        assert_same(weights[row, :length], torch.from_numpy(expected))
        assert (weights[row, length:] == 0).all()
        assert_same(context[row, 0], torch.from_numpy(expected @ h))


def test_the_tanh_encoder_equals_the_recurrence_of_the_lecture() -> None:
    encoder = randomise(RecurrentEncoder("rnn", QUERY, WIDTH))
    kernel = encoder.kernel
    u, v = array(kernel.weight_ih_l0), array(kernel.weight_hh_l0)
    b = array(kernel.bias_ih_l0) + array(kernel.bias_hh_l0)
    x = torch.randn(2, 6, QUERY, dtype=torch.float64)
    memory, final = encoder(x, torch.arange(6) >= torch.tensor(LENGTHS)[:, None])
    for row, length in enumerate(LENGTHS):
        h = np.zeros(WIDTH)
        for t in range(length):
            h = np.tanh(u @ array(x[row, t]) + v @ h + b)
            assert_same(memory[row, t], torch.from_numpy(h))
        assert_same(final[row], torch.from_numpy(h))


def test_the_tanh_decoder_equals_the_recurrence_of_bahdanau() -> None:
    score = AdditiveScore(WIDTH, MEMORY, WIDTH)
    cell = randomise(AttentiveCell("rnn", QUERY, WIDTH, memory_width=MEMORY, attention=ScoredAttention(score)))
    kernel = cell.kernel
    u, v = array(kernel.weight_ih_l0), array(kernel.weight_hh_l0)
    b = array(kernel.bias_ih_l0) + array(kernel.bias_hh_l0)
    memory, final = torch.randn(1, 6, MEMORY, dtype=torch.float64), torch.randn(1, MEMORY, dtype=torch.float64)
    x = torch.randn(1, 4, QUERY, dtype=torch.float64)
    state = cell.start(memory, final, torch.zeros(1, 6, dtype=torch.bool))
    s = np.tanh(array(cell.bridge.weight) @ array(final[0]) + array(cell.bridge.bias))
    for t in range(4):
        out, state = cell(x[:, t], state)
        context = softmax(additive(score, s, array(memory[0]), np.zeros(6))) @ array(memory[0])
        s = np.tanh(u @ np.concatenate((array(x[0, t]), context)) + v @ s + b)
        assert_same(out[0], torch.from_numpy(np.concatenate((s, context))))
