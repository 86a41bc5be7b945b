"""Positional encodings: attention itself ignores the order of its inputs, so positions are encoded in them.

An encoding is one vector e_t for each position t; `Positions` adds it to x or concatenates it. `Rotary` instead rotates
queries and keys inside attention. Tables are computed in double precision, to be exact in every dtype, and cached.
"""

import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from regard.blocks.initialization import normal_
from regard.blocks.operations import Call, Operation
from regard.blocks.shapes import expect, expect_context, expect_one_of

Kind = Literal["sinusoidal", "sinusoidal_split", "fourier", "learned", "rotary", "none"]
Merge = Literal["add", "concatenate"]


class Sinusoidal(nn.Module):
    """e_t = (sin ω_0 t, cos ω_0 t, sin ω_1 t, ...), ω_k = 10000^(−2k/D)  (Vaswani et al. 2017, section 3.5).

    Args:
        split: all sines, then all cosines, as in the authors' code and in Marian.
    """

    def __init__(self, width: int, split: bool = False) -> None:
        super().__init__()
        _check_even("sinusoidal", width)
        self.split, self.frequencies = split, _sinusoidal(width)

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """e_t for the positions of x, starting at `start`."""
        sin, cos = _sin_cos(self.frequencies, x_BTD, start)
        return torch.stack((sin, cos), dim=1 if self.split else 2).flatten(1)


class Fourier(nn.Module):
    """e_t = (cos πt/T, sin πt/T, cos 2πt/T, sin 2πt/T, ...), T the maximum context, not the sentence length."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        _check_even("fourier", width)
        self.context = context
        self.frequencies = tuple(math.pi * k / context for k in range(1, width // 2 + 1))

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """e_t for the positions of x, starting at `start`."""
        expect_context(start + x_BTD.size(1), self.context)
        sin, cos = _sin_cos(self.frequencies, x_BTD, start)
        return torch.stack((cos, sin), dim=2).flatten(1)


class Learned(nn.Module):
    """e_t is row t of a trained table; positions beyond its last row do not exist."""

    def __init__(self, width: int, context: int) -> None:
        super().__init__()
        self.context = context
        self.weight = nn.Parameter(normal_(torch.empty(context, width), std=0.02))

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """e_t for the positions of x, starting at `start`."""
        stop = start + x_BTD.size(1)
        expect_context(stop, self.context)
        return self.weight[start:stop]


class Positions(nn.Module):
    """Adds an encoding to x, or concatenates it, which makes x wider."""

    def __init__(self, encoding: nn.Module, merge: Merge = "add") -> None:
        super().__init__()
        expect_one_of("merge", merge, get_args(Merge))
        self.encoding, self.merge = encoding, merge

    def forward(self, x_BTD: Tensor, start: Any = 0) -> Tensor:
        """x with its positions, starting at `start`; for the patches of an image, `start` is their grid."""
        expect("x", x_BTD, "batch", "length", "width")
        encoding_TE = self.encoding(x_BTD, start)
        if self.merge == "concatenate":
            return torch.cat((x_BTD, encoding_TE.expand(x_BTD.size(0), -1, -1)), dim=2)
        expect("x", x_BTD, "batch", "length", encoding_TE.size(1))
        return x_BTD + encoding_TE

    def operations(self, call: Call) -> Iterator[Operation]:
        """The encoding, and x combined with it."""
        encoding_1TE, forward = self.encoding(*call.args)[None], Positions.forward
        yield Operation("position", "e_t", encoding_1TE, (forward, "self.encoding("))
        if self.merge == "concatenate":
            yield Operation("concatenated position", "[x, e_t]", call.output, (forward, "torch.cat("))
        else:
            yield Operation("added position", "x + e_t", call.output, (forward, "return x_BTD + encoding_TE"))


def make_positions(kind: Kind, width: int, context: int, merge: Merge = "add") -> Positions | None:
    """The encoding of this kind, `width` wide; None for kinds that neither add nor concatenate anything."""
    encodings: dict[str, Callable[[], nn.Module]] = {
        "sinusoidal": lambda: Sinusoidal(width),
        "sinusoidal_split": lambda: Sinusoidal(width, split=True),
        "fourier": lambda: Fourier(width, context),
        "learned": lambda: Learned(width, context),
    }
    expect_one_of("positions", kind, get_args(Kind))
    return Positions(encodings[kind](), merge) if kind in encodings else None


class Rotary(nn.Module):
    """Rotates dimensions 2k and 2k+1 by the angle ω_k t, so that q·k depends on the distance only (Su et al. 2021)."""

    def __init__(self, head_width: int) -> None:
        super().__init__()
        _check_even("rotary", head_width)
        self.head_width, self.frequencies = head_width, _sinusoidal(head_width)

    def forward(self, x_BHTK: Tensor, start: int = 0) -> Tensor:
        """x, rotated by its positions, starting at `start`."""
        expect("x", x_BHTK, "batch", "heads", "length", self.head_width)
        wide_BHTK = x_BHTK.float() if x_BHTK.dtype in (torch.float16, torch.bfloat16) else x_BHTK
        sin, cos = _sin_cos(self.frequencies, wide_BHTK[:, 0], start)
        # a pair is a complex number; one complex product rotates it faster than real products of its two parts
        pairs = torch.view_as_complex(wide_BHTK.view(*x_BHTK.shape[:3], self.head_width // 2, 2))
        return torch.view_as_real(pairs * torch.complex(cos, sin)).flatten(-2).to(x_BHTK.dtype)


def _sinusoidal(width: int) -> tuple[float, ...]:
    return tuple(10000.0 ** (-2 * k / width) for k in range(width // 2))


def _sin_cos(frequencies: tuple[float, ...], x_BTD: Tensor, start: int) -> tuple[Tensor, Tensor]:
    """Sine and cosine of each frequency at the positions of x."""
    stop = start + x_BTD.size(1)
    # table lengths are powers of two, so that decoding token by token needs few tables
    sin, cos = _table(frequencies, 1 << (stop - 1).bit_length(), x_BTD.dtype, x_BTD.device)
    return sin[start:stop], cos[start:stop]


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # otherwise a table made in inference mode could not be used in training
def _table(
    frequencies: tuple[float, ...], length: int, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    # on the CPU, because not every device has double precision
    positions = torch.arange(length, dtype=torch.float64, device="cpu")
    angles = torch.outer(positions, torch.tensor(frequencies, dtype=torch.float64, device="cpu"))
    return angles.sin().to(device, dtype), angles.cos().to(device, dtype)


def _check_even(name: str, width: int) -> None:
    if width % 2:
        raise ValueError(f"{name} positions come in pairs, but the width is {width}; choose an even width")
