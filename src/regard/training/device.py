"""The device to compute on, and the precision."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from regard.errors import RegardError


class Device:
    """The device of this process.

    Args:
        name: "auto" selects a GPU (cuda, mps) if there is one.
        precision: "auto" selects bfloat16 on a GPU that supports it, else float32.
    """

    def __init__(self, name: str, precision: str) -> None:
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        elif not getattr(torch, name).is_available():
            raise RegardError(f"device = {name} is not available on this machine or in this build of torch; use auto")
        self.torch = torch.device(name)
        if precision == "auto":
            precision = "bfloat16" if name == "cuda" and torch.cuda.is_bf16_supported() else "float32"
        self.is_low = precision == "bfloat16"

    @property
    def dtype(self) -> torch.dtype:
        """The data type of matrix products."""
        return torch.bfloat16 if self.is_low else torch.float32

    def autocast(self) -> AbstractContextManager[Any]:
        """A context in which matrix products are computed in the chosen precision."""
        return torch.autocast(self.torch.type, torch.bfloat16, enabled=self.is_low)

    def random_states(self) -> dict[str, Tensor]:
        """The states of the random number generators, as tensors on the CPU."""
        states = {"cpu": torch.get_rng_state()}
        if self.torch.type == "cuda":
            states["cuda"] = torch.cuda.get_rng_state()
        elif self.torch.type == "mps":
            states["mps"] = torch.mps.get_rng_state()
        return states

    def set_random_states(self, states: Mapping[str, Tensor]) -> None:
        """Restores the states that `random_states` returned."""
        torch.set_rng_state(states["cpu"])
        if self.torch.type == "cuda":
            torch.cuda.set_rng_state(states["cuda"])
        elif self.torch.type == "mps":
            torch.mps.set_rng_state(states["mps"])
