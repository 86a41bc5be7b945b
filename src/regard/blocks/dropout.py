"""Dropout from random bytes: one byte decides for one number, which is several times as fast on a CPU as torch's own.

The rate is taken in steps of 1/256, and what is kept is scaled by the rate that was taken, so that the mean is exact.
"""

from typing import Any, cast

import torch
from torch import Tensor, nn


class Dropout(nn.Module):
    """Sets numbers to zero with probability `rate` in training, and scales the rest up."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        if not 0 <= rate < 1:
            raise ValueError(f"a dropout rate is at least 0 and less than 1, got {rate}")
        self.rate = rate
        self.threshold = min(255, round(rate * 256))

    def forward(self, x: Tensor) -> Tensor:
        """x, thinned out in training."""
        if not self.training or not self.threshold:
            return x
        return cast(Tensor, _Dropout.apply(x, self.threshold))  # type: ignore[no-untyped-call]


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        # 8 bytes a draw; from the lowest number on, because without it the sign bit would always be 0
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        random_bytes = words.view(torch.uint8)[: x.numel()].view(x.shape)
        ctx.save_for_backward(random_bytes)
        ctx.threshold = threshold
        return _thinned(x, random_bytes, threshold)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (random_bytes,) = ctx.saved_tensors
        return _thinned(upstream, random_bytes, ctx.threshold), None


def _thinned(x: Tensor, random_bytes: Tensor, threshold: int) -> Tensor:
    """x where the byte beside it reaches the threshold."""
    # written as numbers, which are several times as fast to make and to multiply with as truth values
    kept = torch.ge(random_bytes, threshold, out=torch.empty_like(x))
    return kept.mul_(256 / (256 - threshold)).mul_(x)
