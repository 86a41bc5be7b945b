import pytest
import torch

from helpers import assert_same
from regard.blocks import masks
from regard.blocks.attention import Cache, KeyValue, MultiHeadAttention
from regard.blocks.positions import Rotary


def test_output_and_memory_may_have_different_widths() -> None:
    attention = MultiHeadAttention(8, 2, memory_width=6, out_width=5)
    assert attention(torch.randn(2, 3, 8), torch.randn(2, 4, 6)).shape == (2, 3, 5)


def test_one_head_with_identity_projections_is_plain_dot_product_attention() -> None:
    attention = MultiHeadAttention(4, 1, score="dot", bias=False).double()
    for linear in (attention.query, attention.key, attention.value, attention.out):
        torch.nn.init.eye_(linear.weight)
    x = torch.randn(1, 3, 4, dtype=torch.float64)
    assert_same(attention(x), (x @ x.mT).softmax(-1) @ x)


def test_scaled_dot_divides_by_the_root_of_the_head_width() -> None:
    scaled, plain = MultiHeadAttention(8, 2).double(), MultiHeadAttention(8, 2, score="dot").double()
    plain.load_state_dict(scaled.state_dict())
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    assert not torch.allclose(scaled(x), plain(x))
    with torch.no_grad():
        plain.query.weight /= 2  # √4
        plain.query.bias /= 2
    assert_same(scaled(x), plain(x))


def test_precomputed_keys_and_values_give_the_same_output() -> None:
    attention = MultiHeadAttention(8, 2, memory_width=6).double()
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 4, 6, dtype=torch.float64)
    assert torch.equal(attention(x, attention.remember(memory)), attention(x, memory))


def test_a_cache_grows_and_can_be_reordered() -> None:
    cache = Cache()
    pieces = [torch.randn(3, 2, length, 4) for length in (1, 1, 3, 7)]
    for piece in pieces:
        whole = cache.extend(KeyValue(piece, -piece))
    assert torch.equal(whole.key_BHSK, torch.cat(pieces, dim=2))
    assert torch.equal(whole.value_BHSK, -whole.key_BHSK)
    moved = cache.reorder(torch.tensor([2, 0, 0, 1]))
    new = torch.randn(4, 2, 1, 4)
    after = moved.extend(KeyValue(new, new))
    assert torch.equal(after.key_BHSK[:, :, :12], whole.key_BHSK[[2, 0, 0, 1]])
    assert cache.length == 12
    assert moved.length == 13


def test_an_empty_cache_can_be_reordered() -> None:
    assert Cache().reorder(torch.tensor([0])) == Cache()


def test_a_cache_doubles_its_buffer() -> None:
    cache = Cache()
    cache.extend(KeyValue(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4)))
    assert cache.buffer is not None
    assert cache.buffer.key_BHSK.size(2) == 6


def test_attention_without_bias_has_no_bias_parameters() -> None:
    assert all("bias" not in name for name, _ in MultiHeadAttention(8, 2, bias=False).named_parameters())


def test_wrong_widths_raise_an_error() -> None:
    with pytest.raises(ValueError, match="width 8 cannot be split into 0 heads"):
        MultiHeadAttention(8, 0)
    with pytest.raises(ValueError, match="width 10 cannot be split into 4 heads"):
        MultiHeadAttention(10, 4)
    attention = MultiHeadAttention(8, 2, memory_width=6)
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 8\), got \(2, 3, 7\)"):
        attention(torch.zeros(2, 3, 7), torch.zeros(2, 4, 6))
    with pytest.raises(ValueError, match=r"memory should have shape \(batch, length, 6\), got \(2, 4, 8\)"):
        attention(torch.zeros(2, 3, 8), torch.zeros(2, 4, 8))


def test_self_attention_equals_attention_to_x_as_memory() -> None:
    attention = MultiHeadAttention(8, 2).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    assert torch.equal(attention(x), attention(x, x))


def test_a_cache_and_rotary_positions_require_self_attention() -> None:
    x = torch.randn(2, 3, 8)
    with pytest.raises(ValueError, match="are for self-attention"):
        MultiHeadAttention(8, 2, rotary=Rotary(4))(x, x)
    with pytest.raises(ValueError, match="are for self-attention"):
        MultiHeadAttention(8, 2)(x, x, cache=Cache())


def test_gradients_flow_through_a_cache() -> None:
    attention = MultiHeadAttention(8, 2).double()
    x = torch.randn(2, 4, 8, dtype=torch.float64, requires_grad=True)
    cache = Cache()
    found = torch.cat([attention(piece, cache=cache) for piece in x.split(1, dim=1)], dim=1)
    expected = attention(x, allowed=masks.causal(4, 4))
    direction = torch.randn_like(expected)
    assert_same(torch.autograd.grad(found, x, direction)[0], torch.autograd.grad(expected, x, direction)[0])


def test_a_wrong_batch_size_raises_an_error_and_does_not_change_the_cache() -> None:
    cache = Cache()
    cache.extend(KeyValue(torch.ones(3, 2, 1, 4), torch.ones(3, 2, 1, 4)))
    with pytest.raises(ValueError, match=r"key should have shape \(3, 2, length, 4\), got \(1, 2, 1, 4\)"):
        cache.extend(KeyValue(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 4)))
    assert cache.length == 1


@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_empty_batches_and_sequences_are_allowed(batch, queries, keys) -> None:
    found = MultiHeadAttention(8, 2)(torch.randn(batch, queries, 8), torch.randn(batch, keys, 8))
    assert found.shape == (batch, queries, 8)
    assert found.isfinite().all()


def test_an_unknown_score_raises_an_error() -> None:
    with pytest.raises(ValueError, match="score should be one of 'dot', 'scaled_dot', got 'scaled'"):
        MultiHeadAttention(8, 2, score="scaled")  # type: ignore[arg-type]
