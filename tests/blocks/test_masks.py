import pytest
import torch

from regard.blocks.masks import causal, padding, window


def test_the_padding_mask_hides_padding_from_every_query() -> None:
    is_padding = torch.tensor([[False, False, True], [False, False, False]])
    assert padding(is_padding).tolist() == [[[[True, True, False]]], [[[True, True, True]]]]


def test_the_causal_mask_allows_the_past_and_the_present() -> None:
    assert causal(3, 3)[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_the_causal_mask_aligns_the_last_query_with_the_last_key() -> None:
    assert causal(2, 4)[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_the_window_mask_allows_neighbours_to_the_left_and_right() -> None:
    assert window(4, 4, left=1, right=0)[0, 0].int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
    assert window(3, 3, left=0, right=1)[0, 0].int().tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]


def test_masks_are_created_on_the_given_device() -> None:
    device = torch.device("meta")
    assert causal(2, 3, device).device == window(2, 3, 1, 1, device).device == device


def test_masks_are_combined_with_and() -> None:
    both = padding(torch.tensor([[False, False, True]])) & causal(3, 3)
    assert both.shape == (1, 1, 3, 3)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_invalid_masks_raise_an_error() -> None:
    with pytest.raises(ValueError, match=r"bool of shape \(batch, length\), got torch.int64 of shape \(2,\)"):
        padding(torch.tensor([3, 2]))
    with pytest.raises(ValueError, match=r"bool of shape \(batch, length\), got torch.int64 of shape \(1, 2\)"):
        padding(torch.tensor([[3, 2]]))
    with pytest.raises(ValueError, match=r"got torch.bool of shape \(2,\)"):
        padding(torch.tensor([True, False]))
    with pytest.raises(ValueError, match="got left 0 and right -1"):
        window(3, 3, left=0, right=-1)
    with pytest.raises(ValueError, match="4 queries but only 3 keys"):
        causal(4, 3)
    with pytest.raises(ValueError, match="got left -1 and right 0"):
        window(3, 3, left=-1, right=0)
