"""Checks at the doors of the blocks, so that a mistake is named where it is made."""

from collections.abc import Collection

from torch import Tensor

from regard.errors import RegardError


def expect(name: str, x: Tensor, *sizes: int | str) -> None:
    """Raises `ValueError` unless `x` has these sizes; a text stands for any size and names the dimension."""
    fits = x.dim() == len(sizes)
    for size, got in zip(sizes, x.shape, strict=False):  # a plain loop: this is asked many times a token
        fits = fits and (size == got or isinstance(size, str))
    if not fits:
        raise ValueError(f"{name} should have shape ({', '.join(map(str, sizes))}), got {tuple(x.shape)}")


def expect_one_of(name: str, value: object, known: Collection[str]) -> None:
    """Raises `ValueError` unless the value is one of the known ones."""
    if value not in known:
        raise ValueError(f"{name} should be one of {', '.join(map(repr, known))}, got {value!r}")


def expect_context(length: int, context: int) -> None:
    """Raises `RegardError` where a sequence is longer than what a block was made for."""
    if length > context:
        raise RegardError(f"{length} tokens exceed the context of {context}; raise model.context or shorten the input")
