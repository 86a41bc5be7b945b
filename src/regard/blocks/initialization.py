"""Weight initialisation."""

from torch import Tensor, nn


def normal_(weight: Tensor, std: float) -> Tensor:
    """Fills weights from a normal distribution with mean 0; skips tensors on the meta device.

    For those torch does nothing either, but imports hundreds of modules first, which takes more than a second.
    """
    return weight if weight.is_meta else nn.init.normal_(weight, std=std)
