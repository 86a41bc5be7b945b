"""FLOP counts of matrix products, compared with counts by hand."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from regard.blocks.attend import FEW
from regard.blocks.loss import linear_cross_entropy
from regard.models.gpt2 import Gpt2Config
from regard.training.flops import FlopCounter, limit
from regard.training.recompute import recompute


def test_training_linear_layers_takes_six_flops_per_weight_and_token() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    weights, tokens = 8 * 16 + 16 * 4, 3 * 5
    x = torch.randn(3, 5, 8, requires_grad=True)
    with FlopCounter() as forward:
        y = model(x)
    with FlopCounter() as backward:
        y.sum().backward()
    assert forward.flops == 2 * weights * tokens
    assert backward.flops == 4 * weights * tokens


def test_the_chunked_loss_is_counted_in_full() -> None:
    x, weight, bias = torch.randn(700, 8, requires_grad=True), nn.Parameter(torch.randn(30, 8)), torch.zeros(30)
    with FlopCounter() as count:
        linear_cross_entropy(x, weight, bias, torch.zeros(700, dtype=torch.int64))[0].backward()
    assert count.flops == 6 * 30 * 8 * 700


def test_attention_takes_two_matrix_products_forward_and_five_backward() -> None:
    query, key = torch.randn(2, 3, 7, 8, requires_grad=True), torch.randn(2, 3, 5, 8, requires_grad=True)
    product = 2 * 2 * 3 * 7 * 5 * 8
    with FlopCounter() as forward:
        found = F.scaled_dot_product_attention(query, key, key, attn_mask=torch.ones(7, 5, dtype=torch.bool))
    with FlopCounter() as backward:
        found.sum().backward()
    assert forward.flops == 2 * product
    assert backward.flops == 5 * product  # the kernel recomputes the scores


@pytest.mark.parametrize(("kind", "gates"), [(nn.RNN, 1), (nn.GRU, 3), (nn.LSTM, 4)])
def test_recurrent_layers_are_counted(kind, gates) -> None:
    x = torch.randn(2, 5, 6, requires_grad=True)
    with FlopCounter() as count:
        kind(6, 8, batch_first=True)(x)
    assert count.flops == 2 * 2 * 5 * (6 + 8) * 8 * gates


def test_training_an_lstm_takes_three_times_the_flops_of_inference() -> None:
    x = torch.randn(2, 5, 6, requires_grad=True)
    with FlopCounter() as count:
        nn.LSTM(6, 8, batch_first=True)(x)[0].sum().backward()
    assert count.flops == 3 * (2 * 2 * 5 * (6 + 8) * 8 * 4)


@pytest.mark.parametrize("length", [7, FEW + 1])  # attention by explicit products, and by torch's kernel
def test_training_a_language_model_takes_six_flops_per_weight_and_token_plus_attention(length) -> None:
    batch, width, layers, vocab_size = 2, 8, 3, 11
    shape = {"width": width, "ff_width": 4 * width, "heads": 2, "layers": layers}
    model = Gpt2Config(vocab_size=vocab_size, context=length, **shape).build()
    with FlopCounter() as count:
        model(torch.zeros(batch, length, dtype=torch.int64)).sum().backward()
    weights = layers * 12 * width**2 + vocab_size * width
    product = 2 * batch * length**2 * width
    products = 6 if length <= FEW else 7  # the kernel recomputes the scores
    assert count.flops == 6 * weights * batch * length + layers * products * product


def test_counting_leaves_no_hooks() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8, requires_grad=True)
    with FlopCounter() as count:
        model(x)
    model(x).sum().backward()
    assert count.flops == 2 * 4 * 8 * 8
    assert not nn.modules.module._has_any_global_hook()


def test_recomputed_activations_are_not_counted() -> None:
    counts = []
    for again in (False, True):
        model = nn.ModuleList([nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))])
        if again:
            recompute(model)
        with FlopCounter() as count:
            model[0](torch.randn(4, 8, requires_grad=True)).sum().backward()
        counts.append(count.flops)
    assert counts == [6 * 2 * 64 * 4] * 2


def test_counting_does_not_change_the_gradients() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)
    (expected,) = torch.autograd.grad(model(x).exp().sum(), [model.weight])
    with FlopCounter():
        (got,) = torch.autograd.grad(model(x).exp().sum(), [model.weight])
    assert torch.equal(got, expected)


def test_the_peak_speed_is_measured_once_and_does_not_change_the_random_state() -> None:
    before = torch.get_rng_state()
    found = limit(torch.device("cpu"), torch.float64)
    assert found > 1e6
    assert limit(torch.device("cpu"), torch.float64) == found
    assert torch.equal(torch.get_rng_state(), before)
