"""Data augmentation of images."""

import pytest
import torch

from regard.data.augment import AFFINE, OPERATIONS, AugmentConfig, augmented, mixed, one_operation, transformed

ALL = AugmentConfig(crop=3, flip=True, operations=2, erase=0.5)


def images(count: int = 16, channels: int = 3) -> torch.Tensor:
    return torch.randint(0, 256, (count, channels, 12, 10), generator=torch.Generator().manual_seed(1)).float()


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_same_seed_gives_the_same_images() -> None:
    one, same, other = (augmented(images(), ALL, seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_nothing_changes_by_default() -> None:
    assert torch.equal(augmented(images(), AugmentConfig(), seeded(1)), images())


@pytest.mark.parametrize("channels", [1, 3])
def test_pixels_stay_between_0_and_255(channels: int) -> None:
    for seed in range(20):
        found = augmented(images(channels=channels), ALL, seeded(seed))
        assert found.shape == images(channels=channels).shape
        assert found.min() >= 0
        assert found.max() <= 255 + 1e-3  # rounding of a stretched contrast


def test_a_crop_is_a_shift_with_black_borders() -> None:
    found = augmented(images(), AugmentConfig(crop=2), seeded(1))
    padded = torch.nn.functional.pad(images(), (2,) * 4)
    shifts = [padded[:, :, y : y + 12, x : x + 10] for y in range(5) for x in range(5)]
    chosen = [next(i for i, shift in enumerate(shifts) if torch.equal(shift[b], found[b])) for b in range(len(found))]
    assert len(set(chosen)) > 5


def test_about_half_of_the_images_are_flipped() -> None:
    x = images(200)
    flipped = (augmented(x, AugmentConfig(flip=True), seeded(1)) == x.flip(3)).flatten(1).all(1)
    assert 70 < int(flipped.sum()) < 130


def test_erasing_changes_a_rectangle_of_some_images() -> None:
    x = images(200)
    changed = augmented(x, AugmentConfig(erase=0.5), seeded(1)) != x
    share = changed.any(1).float().mean((1, 2))
    assert 60 < int((share > 0).sum()) < 140
    assert share.max() <= 0.45  # a third, rounded up to whole pixels


@pytest.mark.parametrize("number", range(len(AFFINE)))
def test_an_affine_operation_of_no_strength_changes_nothing(number: int) -> None:
    kind, none = torch.full((16,), number), torch.zeros(16)
    # bilinear sampling at the pixel centres, up to rounding of coordinates
    assert torch.allclose(transformed(images(), kind, none), images(), rtol=0, atol=1e-2)
    assert not torch.allclose(transformed(images(), kind, none + 0.8), images(), rtol=0, atol=1)


def test_every_operation_is_chosen() -> None:
    x = images(1).expand(400, -1, -1, -1).contiguous()
    found = one_operation(x, 1.0, seeded(1))
    # nearly all operations have random strengths, so nearly all results differ
    assert (
        len(found.flatten(1).unique(dim=0))
        > 400 * (len(OPERATIONS) + len(AFFINE) - 4) / (len(OPERATIONS) + len(AFFINE)) / 2
    )


@pytest.mark.parametrize("config", [AugmentConfig(mixup=0.4), AugmentConfig(cutmix=1.0)])
def test_a_mixed_image_is_made_of_two_in_the_stated_shares(config: AugmentConfig) -> None:
    count = 64
    # every pixel of image i is i, so the mean of a mixed image tells its shares
    x = torch.arange(count).float().view(-1, 1, 1, 1).expand(-1, 3, 12, 10).contiguous()
    found = mixed(x, config, seeded(3))
    own, partner = torch.arange(count).float(), found.partner_B.float()
    expected = found.weight_B * own + (1 - found.weight_B) * partner
    assert torch.allclose(found.images_BCYX.mean((1, 2, 3)), expected, rtol=0, atol=1e-3)
    assert found.weight_B.std() > 0.05
    assert sorted(found.partner_B.tolist()) == list(range(count))
