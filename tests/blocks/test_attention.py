import pytest
import torch

from helpers import assert_same
from regard.blocks.attention import Cache, KeyValue, MultiHeadAttention
from regard.blocks.positions import Rotary


def test_output_and_memory_may_have_widths_of_their_own() -> None:
    attention = MultiHeadAttention(8, 2, memory_width=6, out_width=5)
    assert attention(torch.randn(2, 3, 8), torch.randn(2, 4, 6)).shape == (2, 3, 5)


def test_one_head_with_identity_matrices_is_the_lectures_plain_attention() -> None:
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


def test_a_remembered_memory_answers_like_the_memory() -> None:
    attention = MultiHeadAttention(8, 2, memory_width=6).double()
    x, memory = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(2, 4, 6, dtype=torch.float64)
    assert torch.equal(attention(x, attention.remember(memory)), attention(x, memory))


def test_a_cache_grows_and_follows_its_sentences() -> None:
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


def test_wrong_widths_are_named() -> None:
    with pytest.raises(ValueError, match="width 10 cannot be split among 4 heads"):
        MultiHeadAttention(10, 4)
    attention = MultiHeadAttention(8, 2, memory_width=6)
    with pytest.raises(ValueError, match=r"x should have shape \(batch, length, 8\), got \(2, 3, 7\)"):
        attention(torch.zeros(2, 3, 7), torch.zeros(2, 4, 6))
    with pytest.raises(ValueError, match=r"memory should have shape \(batch, length, 6\), got \(2, 4, 8\)"):
        attention(torch.zeros(2, 3, 8), torch.zeros(2, 4, 8))


def test_looking_at_oneself_is_looking_at_a_memory_of_oneself() -> None:
    attention = MultiHeadAttention(8, 2, rotary=Rotary(4)).double()
    x = torch.randn(2, 3, 8, dtype=torch.float64)
    assert torch.equal(attention(x), attention(x, x))
