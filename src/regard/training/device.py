"""Where to compute, and in what precision."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError


class Device:
    """The device of this process.

    Args:
        name: "auto" takes a graphics card (cuda, mps) if there is one.
        precision: "auto" takes bfloat16 where a graphics card computes with it, or else float32.
    """

    def __init__(self, name: str, precision: str) -> None:
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        elif not getattr(torch, name).is_available():
            raise RegardError(f"device = {name}: this machine has none, or torch was built without it; try auto")
        self.torch = torch.device(name)
        if precision == "auto":
            precision = "bfloat16" if name == "cuda" and torch.cuda.is_bf16_supported() else "float32"
        self.is_low = precision == "bfloat16"

    @property
    def dtype(self) -> torch.dtype:
        """What matrix products are computed in."""
        return torch.bfloat16 if self.is_low else torch.float32

    def autocast(self) -> AbstractContextManager[Any]:
        """Inside, matrix products are computed in the precision chosen."""
        return torch.autocast(self.torch.type, torch.bfloat16, enabled=self.is_low)

    def random_states(self) -> dict[str, Tensor]:
        """What the next random numbers depend on, as tensors on the CPU."""
        states = {"cpu": torch.get_rng_state()}
        if self.torch.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state()
        elif self.torch.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states

    def set_random_states(self, states: Mapping[str, Tensor]) -> None:
        """Puts `random_states` back."""
        torch.set_rng_state(states["cpu"])
        if self.torch.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"])
        elif self.torch.type == "mps":
            torch.mps.set_rng_state(states["mps"])
