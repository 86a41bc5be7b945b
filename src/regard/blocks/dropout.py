"""Dropout from random bytes, one per element: several times as fast on a CPU as torch's own.

The rate is rounded to a multiple of 1/256; kept elements are scaled by the rounded rate, so the mean is exact.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets elements to zero with probability `rate` in training, and scales up the rest."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"a dropout rate must be at least 0 and less than 1, got {rate}")
        self.rate = rate
        self.threshold = min(255, round(rate * 256))

    def forward(self, x: Tensor) -> Tensor:
        """x, with dropout in training."""
        if not self.training or not self.threshold:
            return x
        return cast(Tensor, _Dropout.apply(x, self.threshold))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        # 8 bytes per random integer; the range starts at the minimum, or the sign bit would always be 0
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
        ctx.save_for_backward(random_bytes)
        ctx.threshold = threshold
        return _dropped(x, random_bytes, threshold)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (random_bytes,) = ctx.saved_tensors
        return _dropped(upstream, random_bytes, ctx.threshold), None


def _dropped(x: Tensor, random_bytes: Tensor, threshold: int) -> Tensor:
    """x where its random byte reaches the threshold, scaled; 0 elsewhere."""
    # a mask of floats is several times as fast to create and to multiply with as one of booleans
    kept = torch.ge(random_bytes, threshold, out=torch.empty_like(x))
    return kept.mul_(256 / (256 - threshold)).mul_(x)
