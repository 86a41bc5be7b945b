"""Input checks of the blocks, so that mistakes are reported where they are made."""

from collections.abc import Collection

from torch import Tensor

from regard.errors import RegardError


def expect(name: str, x: Tensor, *sizes: int | str) -> None:
    """Raises `ValueError` unless `x` has these sizes; a string matches any size and names the dimension."""
    fits = x.dim() == len(sizes)
    for size, got in zip(sizes, x.shape, strict=False):  # a plain loop: this runs many times per token
        fits = fits and (size == got or isinstance(size, str))
    if not fits:
        raise ValueError(f"{name} should have shape ({', '.join(map(str, sizes))}), got {tuple(x.shape)}")


def expect_one_of(name: str, value: object, known: Collection[str]) -> None:
    """Raises `ValueError` unless the value is one of the known ones."""
    if value not in known:
        raise ValueError(f"{name} should be one of {', '.join(map(repr, known))}, got {value!r}")


def expect_context(length: int, context: int) -> None:
    """Raises `RegardError` if a sequence exceeds the maximum context of a block."""
    if length > context:
        raise RegardError(f"{length} tokens exceed the context of {context}; raise model.context or shorten the input")
