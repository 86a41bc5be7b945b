import pytest
import torch

from regard.blocks.masks import causal, padding, window


def test_padding_hides_what_is_padding_from_everybody() -> None:
    is_padding = torch.tensor([[False, False, True], [False, False, False]])
    assert padding(is_padding).tolist() == [[[[True, True, False]]], [[[True, True, True]]]]


def test_causal_shows_the_past_and_the_present() -> None:
    assert causal(3, 3)[0, 0].tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_with_earlier_keys_the_last_query_stands_at_the_last_key() -> None:
    assert causal(2, 4)[0, 0].tolist() == [[True, True, True, False], [True, True, True, True]]


def test_window_reaches_left_and_right() -> None:
    assert window(4, 4, left=1, right=0)[0, 0].int().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
    assert window(3, 3, left=0, right=1)[0, 0].int().tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]


def test_masks_are_made_on_the_device_asked_for() -> None:
    device = torch.device("meta")
    assert causal(2, 3, device).device == window(2, 3, 1, 1, device).device == device


def test_masks_combine_with_and() -> None:
    both = padding(torch.tensor([[False, False, True]])) & causal(3, 3)
    assert both.shape == (1, 1, 3, 3)
    assert both[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_wrong_masks_are_named() -> None:
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
