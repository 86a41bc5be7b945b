"""Shape checks at the doors of the blocks, so that a mistake is named where it is made."""

from torch import Tensor


def expect(name: str, x: Tensor, *sizes: int | str) -> None:
    """Raises `ValueError` unless `x` has these sizes; a text stands for any size and names the dimension."""
    if x.dim() != len(sizes) or any(
        isinstance(size, int) and size != got for size, got in zip(sizes, x.shape, strict=True)
    ):
        raise ValueError(f"{name} should have shape ({', '.join(map(str, sizes))}), got {tuple(x.shape)}")
