"""How weights begin."""

from torch import Tensor, nn


def normal_(weight: Tensor, std: float) -> Tensor:
    """Fills weights at random, with mean 0; those of a model of shapes only are left alone.

    For them, torch would do nothing either, but load hundreds of modules first, for more than a second.
    """
    return weight if weight.is_meta else nn.init.normal_(weight, std=std)
