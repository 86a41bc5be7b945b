import pytest
import torch

from helpers import assert_same
from regard.blocks.attend import attend, attend_explicitly, weigh


def test_weights_of_the_lectures_worked_example() -> None:
    # "The brown dog ran": scores of "brown" with the four words, divided by √64. The deck shows .08, .91, .01, 0 as
    # an illustration; the softmax of these scores gives the numbers below.
    scores = torch.tensor([92.0, 124.0, 22.0, 8.0], dtype=torch.float64)
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0], [5.0, 5.0], [7.0, 7.0]], dtype=torch.float64)
    found, weights = weigh((scores / 8)[None, None, None], values[None, None])
    assert_same(weights[0, 0, 0], torch.tensor([0.018, 0.982, 0.0, 0.0], dtype=torch.float64), tolerance=5e-4)
    assert_same(found[0, 0, 0], torch.tensor([0.018, 0.982], dtype=torch.float64), tolerance=5e-4)


def test_scores_are_scaled_by_the_square_root_of_the_width() -> None:
    # keys of width 64 whose dot products with the query are the example's scores
    query = torch.zeros(1, 1, 1, 64, dtype=torch.float64)
    query[..., 0] = 1.0
    key = torch.zeros(1, 1, 4, 64, dtype=torch.float64)
    key[..., 0] = torch.tensor([92.0, 124.0, 22.0, 8.0])
    value = torch.eye(4, dtype=torch.float64)[None, None]
    expected = torch.tensor([92.0, 124.0, 22.0, 8.0], dtype=torch.float64).div(8).softmax(0)
    assert_same(attend(query, key, value)[0, 0, 0], expected)
    assert_same(attend_explicitly(query, key, value)[0][0, 0, 0], expected)


@pytest.mark.parametrize("function", [attend, lambda *inputs: attend_explicitly(*inputs)[0]], ids=["fused", "explicit"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_fully_masked_query_gets_zeros_and_no_gradient(function, dtype) -> None:
    query, key, value = (torch.randn(2, 3, 4, 8, dtype=dtype, requires_grad=True) for _ in range(3))
    allowed = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    allowed[0, :, 1] = False
    found = function(query, key, value, allowed)
    assert (found[0, :, 1] == 0).all()
    assert (found[0, :, 2] != 0).all()
    found[0, :, 1].sum().backward()
    for tensor in (query, key, value):
        assert (tensor.grad == 0).all()


@pytest.mark.parametrize("function", [attend, lambda *inputs: attend_explicitly(*inputs)[0]], ids=["fused", "explicit"])
def test_attention_without_keys_gives_zeros(function) -> None:
    found = function(torch.randn(2, 3, 4, 8), torch.randn(2, 3, 0, 8), torch.randn(2, 3, 0, 8))
    assert found.shape == (2, 3, 4, 8)
    assert (found == 0).all()


def test_masked_keys_do_not_change_the_output() -> None:
    query, key, value = (torch.randn(1, 2, 3, 4) for _ in range(3))
    allowed = torch.tensor([True, True, False])[None, None, None]
    before = attend(query, key, value, allowed)
    key[:, :, 2], value[:, :, 2] = 100.0, -100.0
    assert torch.equal(attend(query, key, value, allowed), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": torch.zeros(2, 3, 4)}, r"query should have shape \(batch, heads, queries, width\), got \(2, 3, 4\)"),
        ({"key": torch.zeros(2, 3, 5, 7)}, r"key should have shape \(2, 3, keys, 8\), got \(2, 3, 5, 7\)"),
        ({"value": torch.zeros(2, 3, 6, 8)}, r"value should have shape \(2, 3, 5, width\), got \(2, 3, 6, 8\)"),
        ({"allowed": torch.ones(4, 5, dtype=torch.bool)}, r"broadcast to shape \(2, 3, 4, 5\), got \(4, 5\)"),
        ({"allowed": torch.ones(2, 3, 5, 5, dtype=torch.bool)}, r"shape \(2, 3, 4, 5\), got \(2, 3, 5, 5\)"),
        (
            {"allowed": torch.zeros(1, 1, 4, 5)},
            r"allowed should be bool, True where a key may be seen, got torch.float32",
        ),
    ],
)
@pytest.mark.parametrize("function", [attend, attend_explicitly])
def test_wrong_shapes_and_masks_raise_an_error(function, change, message) -> None:
    right = {"query": torch.zeros(2, 3, 4, 8), "key": torch.zeros(2, 3, 5, 8), "value": torch.zeros(2, 3, 5, 8)}
    inputs = {**right, "allowed": None, **change}
    with pytest.raises(ValueError, match=message):
        function(inputs["query"], inputs["key"], inputs["value"], inputs["allowed"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_fused_and_explicit_attention_agree_in_half_precision(dtype) -> None:
    query, key, value = (40 * torch.randn(1, 2, 5, 64).to(dtype) for _ in range(3))
    fused, (explicit, weights) = attend(query, key, value), attend_explicitly(query, key, value)
    # entries are about 100, and bfloat16 has 8 bits
    torch.testing.assert_close(fused, explicit, rtol=2e-2, atol=1.0)
    assert_same(weights.sum(-1), torch.ones(1, 2, 5))


def test_scores_without_four_dimensions_raise_an_error() -> None:
    with pytest.raises(ValueError, match=r"scores should have shape \(batch, heads, queries, keys\), got \(2, 3, 5\)"):
        weigh(torch.zeros(2, 3, 5), torch.zeros(2, 1, 5, 8))


def test_a_mask_that_does_not_broadcast_raises_an_error() -> None:
    with pytest.raises(ValueError, match=r"broadcast to shape \(2, 3, 4, 5\), got \(2, 3\)"):
        attend(torch.zeros(2, 3, 4, 8), torch.zeros(2, 3, 5, 8), torch.zeros(2, 3, 5, 8), torch.ones(2, 3).bool())
    with pytest.raises(ValueError, match="allowed should be bool"):
        weigh(torch.zeros(2, 1, 3, 5), torch.zeros(2, 1, 5, 8), torch.ones(1, 1, 3, 5))


def test_very_low_scores_do_not_count_as_masked() -> None:
    scores = torch.tensor([[[[-1e12, -2e12, 0.0]]]])
    weights = weigh(scores, torch.eye(3)[None, None], torch.tensor([True, True, False])[None, None, None])[1]
    assert weights.flatten().tolist() == [1.0, 0.0, 0.0]


def test_values_that_do_not_match_the_scores_raise_an_error() -> None:
    with pytest.raises(ValueError, match=r"value should have shape \(2, 1, 5, width\), got \(2, 1, 4, 8\)"):
        weigh(torch.zeros(2, 1, 3, 5), torch.zeros(2, 1, 4, 8))
