"""Positions as pictures: the matrix of encodings, and how alike two positions are that lie so far apart."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.capture import position_modules
from regard.blocks.positions import Fourier, Positions, Rotary, Sinusoidal

KINDS = ("own", "sinusoidal", "fourier", "rotary")


def encodings(model: Any, length: int, kind: str = "own") -> Tensor:
    """The vector of each position from 0: the model's own, or those of another kind of the same width.

    Rotary positions turn pairs of numbers; shown are the sine and the cosine of each angle.
    """
    if kind not in KINDS:
        raise ValueError(f"no positions are of kind {kind!r}; choose from {', '.join(KINDS)}")
    width = own_width(model)
    if kind == "own":
        for module in position_modules(model).values():
            if isinstance(module, Positions):
                reach = getattr(module.encoding, "context", length)
                x_BTD = next(model.parameters()).new_zeros(1, min(length, reach), 1)
                encoding: Tensor = module.encoding(x_BTD)
                return encoding.detach().cpu()
        kind = "rotary"
    context = max(length, getattr(model.config, "context", length))
    table = Fourier(width, context) if kind == "fourier" else Sinusoidal(width)
    found: Tensor = table(torch.zeros(1, length, width, dtype=torch.float64))
    return found


def own_width(model: nn.Module) -> int:
    """How many numbers tell a position in this model."""
    for module in position_modules(model).values():
        if isinstance(module, Rotary):
            return module.head_width
        if isinstance(module, Positions):
            x_BTD = next(model.parameters()).new_zeros(1, 1, 1)
            return int(module.encoding(x_BTD).size(-1))
    raise ValueError("this model is told no positions: it knows order by reading in order, or not at all")


def own_kind(model: nn.Module) -> str:
    """What the model's positions are."""
    for module in position_modules(model).values():
        return type(module.encoding if isinstance(module, Positions) else module).__name__.lower()
    return "none"


def similarity(encoding_TE: Tensor) -> Tensor:
    """The mean cosine between two positions, by their distance: 0, 1, ..., T − 1."""
    unit_TE = F.normalize(encoding_TE.double(), dim=1)
    cosines_TT = unit_TE @ unit_TE.mT
    return torch.stack([cosines_TT.diagonal(distance).mean() for distance in range(len(unit_TE))])
