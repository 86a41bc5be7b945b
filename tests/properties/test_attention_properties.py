import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers import assert_same, attention_inputs, seeds, sizes
from regard.blocks import attend as module
from regard.blocks import masks
from regard.blocks.attend import attend, attend_explicitly, attend_searching, weigh
from regard.blocks.attention import Cache, MultiHeadAttention
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.positions import Rotary, make_positions


def assert_agree(inputs) -> None:
    *tensors, allowed, scale = inputs
    fused = attend(*tensors, allowed, scale)
    explicit, weights = attend_explicitly(*tensors, allowed, scale)
    assert_same(fused, explicit)
    direction = torch.randn_like(fused)
    for got, expected in zip(
        torch.autograd.grad(fused, tensors, direction), torch.autograd.grad(explicit, tensors, direction), strict=True
    ):
        assert_same(got, expected)
        assert got.isfinite().all()
    sees_something = torch.ones(()) if allowed is None else allowed.any(-1).expand(weights.shape[:3])
    assert_same(weights.sum(-1), sees_something.to(weights.dtype).expand(weights.shape[:3]))


@given(attention_inputs(torch.float64))
def test_fused_and_explicit_attention_agree_in_outputs_and_gradients_in_float64(inputs) -> None:
    assert_agree(inputs)


@given(attention_inputs(torch.float32))
def test_fused_and_explicit_attention_agree_in_outputs_and_gradients_in_float32(inputs) -> None:
    assert_agree(inputs)


@given(attention_inputs(torch.float64), st.booleans())
def test_the_torch_kernel_for_many_keys_agrees_with_explicit_attention(inputs, is_causal) -> None:
    query, key, value, allowed, scale = inputs
    if is_causal and query.size(2) <= key.size(2):
        allowed = masks.causal(query.size(2), key.size(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEW", -1)
        assert_agree((query, key, value, allowed, scale))


@given(attention_inputs(torch.float64))
def test_attention_during_search_equals_attention_in_training(inputs) -> None:
    query, key, value, allowed, _ = inputs
    hidden = None
    if allowed is not None:
        allowed = allowed | ~allowed.any(-1, keepdim=True)  # in a search, no query is fully masked
        hidden = torch.zeros(allowed.shape, dtype=query.dtype).masked_fill(~allowed, -torch.inf)
    before = None if hidden is None else hidden.clone()
    with torch.no_grad():
        assert_same(attend_searching(query, key, value, hidden, 0.3), attend(query, key, value, allowed, 0.3))
    assert before is None or torch.equal(hidden, before)


def test_attention_in_mixed_precision_has_a_gradient() -> None:
    query, key, value = torch.randn(3, 2, 2, 4, 8).unbind()
    query.requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        attend(query, key, value).float().sum().backward()
    assert query.grad is not None
    assert query.grad.isfinite().all()


@given(attention_inputs(torch.float64))
def test_weigh_of_dot_products_equals_attend(inputs) -> None:
    query, key, value, allowed, _ = inputs
    assert_same(weigh(query @ key.mT, value, allowed)[0], attend(query, key, value, allowed, scale=1.0))


@given(attention_inputs(torch.float32), st.sampled_from([1e-30, 1e4, 1e15]))
def test_finite_input_never_gives_nan(inputs, size) -> None:
    # the dot products must not overflow float32: 1e15² × 25 is far below 3e38
    query, key, value, allowed, scale = inputs
    for found in (
        attend(query * size, key * size, value * size, allowed, scale),
        attend_explicitly(query * size, key * size, value * size, allowed, scale)[0],
    ):
        assert found.isfinite().all()


def is_permutation_equivariant(layer, width: int, length: int, seed: int, positions=None) -> bool:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, length, width, generator=generator, dtype=torch.float64)
    order = torch.roll(torch.arange(length), 1)
    place = positions or (lambda y: y)
    with torch.no_grad():
        return torch.allclose(layer(place(x[:, order])), layer(place(x))[:, order], atol=1e-9)


@given(st.integers(2, 6), seeds)
def test_self_attention_is_permutation_equivariant_only_without_positions(length, seed) -> None:
    torch.manual_seed(seed)
    layer = EncoderLayer(8, 2, 16, lambda: LayerNorm(8)).double()
    assert is_permutation_equivariant(layer, 8, length, seed)
    for kind in ("sinusoidal", "sinusoidal_split", "fourier", "learned"):
        positions = make_positions(kind, 8, context=16)
        assert positions is not None
        torch.nn.init.normal_(positions.encoding.weight) if kind == "learned" else None
        assert not is_permutation_equivariant(layer, 8, length, seed, positions.double()), kind
    # two tokens are always at distance one, so rotary positions need a third to make a difference
    assert length == 2 or not is_permutation_equivariant(
        EncoderLayer(8, 2, 16, lambda: LayerNorm(8), rotary=True).double(), 8, length, seed
    )


@given(sizes, sizes, seeds, st.booleans())
def test_future_tokens_do_not_change_past_outputs(past, future, seed, rotary) -> None:
    torch.manual_seed(seed)
    attention = MultiHeadAttention(8, 2, rotary=Rotary(4) if rotary else None).double()
    x = torch.randn(2, past + future, 8, dtype=torch.float64)
    whole = attention(x, allowed=masks.causal(past + future, past + future))
    assert_same(attention(x[:, :past], allowed=masks.causal(past, past)), whole[:, :past])


@given(st.lists(sizes, min_size=1, max_size=4), sizes, seeds)
def test_padding_does_not_change_the_output(lengths, extra, seed) -> None:
    torch.manual_seed(seed)
    attention = MultiHeadAttention(8, 2).double()
    max_length = max(lengths) + extra
    x = torch.randn(len(lengths), max_length, 8, dtype=torch.float64)
    is_padding = torch.arange(max_length) >= torch.tensor(lengths)[:, None]
    batched = attention(x, allowed=masks.padding(is_padding))
    for row, length in enumerate(lengths):
        assert_same(batched[row, :length], attention(x[row : row + 1, :length])[0])


@given(st.lists(sizes, min_size=1, max_size=5), seeds, st.booleans())
def test_attention_with_a_cache_equals_attention_without(pieces, seed, rotary) -> None:
    torch.manual_seed(seed)
    attention = MultiHeadAttention(8, 2, rotary=Rotary(4) if rotary else None).double()
    length = sum(pieces)
    x = torch.randn(2, length, 8, dtype=torch.float64)
    whole = attention(x, allowed=masks.causal(length, length))
    cache, found = Cache(), []
    with torch.no_grad():
        for piece in x.split(pieces, dim=1):
            seen = cache.length + piece.size(1)
            found.append(attention(piece, allowed=masks.causal(piece.size(1), seen), cache=cache))
    assert_same(torch.cat(found, dim=1), whole)
