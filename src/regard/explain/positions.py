"""Positional encodings: their matrix, and the similarity of two positions by distance."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.capture import position_modules
from regard.blocks.positions import Fourier, Positions, Rotary, Sinusoidal
from regard.errors import RegardError

KINDS = ("own", "sinusoidal", "fourier", "rotary")


def encodings(model: Any, length: int, kind: str = "own") -> Tensor:
    """The position vectors from position 0: the model's own, or another kind of the same width.

    Rotary positions rotate pairs of features; the result has the sine and the cosine of each angle.
    """
    if kind not in KINDS:
        raise RegardError(f"unknown kind of positions {kind!r}; choose from {', '.join(KINDS)}")
    own, width = _own(model), own_width(model)
    if kind == "own" and isinstance(own, Positions):
        max_length = getattr(own.encoding, "context", length)
        encoding: Tensor = own.encoding(next(model.parameters()).new_zeros(1, min(length, max_length), 1))
        return encoding.detach().cpu()
    context = max(length, getattr(model.config, "context", length))
    table = Fourier(width, context) if kind == "fourier" else Sinusoidal(width)
    found: Tensor = table(torch.zeros(1, length, width, dtype=torch.float64))
    return found


def own_width(model: nn.Module) -> int:
    """The width of the model's position vectors."""
    own = _own(model)
    if isinstance(own, Rotary):
        return own.head_width
    if isinstance(own, Positions):
        return int(own.encoding(next(model.parameters()).new_zeros(1, 1, 1)).size(-1))
    raise RegardError("this model has no positional encoding; token order comes from recurrence, if at all")


def own_kind(model: nn.Module) -> str:
    """The kind of the model's positional encoding."""
    own = _own(model)
    return "none" if own is None else type(own.encoding if isinstance(own, Positions) else own).__name__.lower()


def _own(model: nn.Module) -> nn.Module | None:
    """The model's first positional encoding."""
    return next(iter(position_modules(model).values()), None)


def similarity(encoding_TE: Tensor) -> Tensor:
    """The mean cosine similarity of two positions, by their distance 0, 1, ..., T − 1."""
    unit_TE = F.normalize(encoding_TE.double(), dim=1)
    cosines_TT = unit_TE @ unit_TE.mT
    return torch.stack([cosines_TT.diagonal(distance).mean() for distance in range(len(unit_TE))])
