"""Positions: attention does not know the order of what it looks at, so the order is told to it.

An encoding gives one vector e_t for each position t; `Positions` adds it to x or sets it beside x. `Rotary` instead
turns queries and keys inside attention. Angles are computed in double precision, so that every dtype gets its best.
"""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from regard.blocks.shapes import expect

Kind = Literal["sinusoidal", "sinusoidal_split", "fourier", "learned", "rotary", "none"]
Merge = Literal["add", "concatenate"]


class Sinusoidal(nn.Module):
    """e_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, ...), ω_k = 10000^(−2k/D)  (Vaswani et al. 2017, section 3.5).

    Args:
        split: all sines, then all cosines, as the authors' own code and Marian have it.
    """

    def __init__(self, width: int, split: bool = False) -> None:
        super().__init__()
        _check_even("sinusoidal", width)
        self.width, self.split = width, split

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """e_t for the positions of x, of which the first is `start`."""
        angles = _angles(_frequencies(self.width, x_BTD.device), x_BTD, start)
        pairs = torch.stack((angles.sin(), angles.cos()), dim=1 if self.split else 2)
        return pairs.flatten(1).to(x_BTD.dtype)


class Fourier(nn.Module):
    """e_t = (cos πt/T, sin πt/T, cos 2πt/T, sin 2πt/T, ...), T the longest context, not the length of the sentence."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        _check_even("fourier", width)
        self.width, self.context = width, context

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """e_t for the positions of x, of which the first is `start`."""
        check_context(start + x_BTD.size(1), self.context)
        harmonics = torch.arange(1, self.width // 2 + 1, dtype=torch.float64, device=x_BTD.device)
        angles = _angles(harmonics * math.pi / self.context, x_BTD, start)
        return torch.stack((angles.cos(), angles.sin()), dim=2).flatten(1).to(x_BTD.dtype)


class Learned(nn.Module):
    """e_t is row t of a table that is trained; there is none beyond its last row."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(torch.randn(context, width) * 0.02)

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """e_t for the positions of x, of which the first is `start`."""
        stop = start + x_BTD.size(1)
        check_context(stop, self.context)
        return self.weight[start:stop]


class Positions(nn.Module):
    """Adds an encoding to x, or sets it beside x, which makes x wider."""

    def __init__(self, encoding: nn.Module, merge: Merge = "add") -> None:
        super().__init__()
        self.encoding, self.merge = encoding, merge

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """x with its positions, of which the first is `start`."""
        expect("x", x_BTD, "batch", "length", "width")
        encoding_TE = self.encoding(x_BTD, start)
        if self.merge == "concatenate":
            return torch.cat((x_BTD, encoding_TE.expand(x_BTD.size(0), -1, -1)), dim=2)
        expect("x", x_BTD, "batch", "length", encoding_TE.size(1))
        return x_BTD + encoding_TE


def make_positions(kind: Kind, width: int, context: int, merge: Merge = "add") -> Positions | None:
    """The encoding of that name, `width` wide; None for kinds that put nothing beside or on x."""
    encodings: dict[str, Callable[[], nn.Module]] = {
        "sinusoidal": lambda: Sinusoidal(width),
        "sinusoidal_split": lambda: Sinusoidal(width, split=True),
        "fourier": lambda: Fourier(width, context),
        "learned": lambda: Learned(width, context),
    }
    return Positions(encodings[kind](), merge) if kind in encodings else None


class Rotary(nn.Module):
    """Turns dimensions 2k and 2k+1 by the angle ω_k t, so that q·k depends on the distance only (Su et al. 2021)."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        _check_even("rotary", head_width)
        self.head_width = head_width

    def forward(self, x_BHTK: Tensor, start: int = 0) -> Tensor:
        """x, turned by its positions, of which the first is `start`."""
        expect("x", x_BHTK, "batch", "heads", "length", self.head_width)
        angles = _angles(_frequencies(self.head_width, x_BHTK.device), x_BHTK[:, 0], start)
        sin, cos = angles.sin().to(x_BHTK.dtype), angles.cos().to(x_BHTK.dtype)
        even, odd = x_BHTK[..., 0::2], x_BHTK[..., 1::2]
        return torch.stack((even * cos - odd * sin, odd * cos + even * sin), dim=-1).flatten(-2)


def check_context(length: int, context: int) -> None:
    """Raises `ValueError` where a sequence is longer than what positions were made for."""
    if length > context:
        raise ValueError(f"{length} tokens exceed the context of {context}; raise model.context or shorten the input")


def _frequencies(width: int, device: torch.device) -> Tensor:
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return 10000.0**-exponents


def _angles(frequencies: Tensor, x_BTD: Tensor, start: int) -> Tensor:
    positions_T = torch.arange(start, start + x_BTD.size(1), dtype=torch.float64, device=x_BTD.device)
    return torch.outer(positions_T, frequencies)


def _check_even(name: str, width: int) -> None:
    if width % 2:
        raise ValueError(f"{name} positions come in pairs, got a width of {width}; choose an even one")
