"""Normalisation layers, and the residual connection around a sublayer.

A norm is called with x and the position of x's first vector, which only batch norm uses.
"""

from collections.abc import Callable, Iterator
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.dropout import Dropout
from regard.blocks.operations import Call, Operation
from regard.blocks.shapes import expect, expect_context, expect_one_of

NormKind = Literal["layer", "batch"]
Placement = Literal["pre", "post"]
EQUATION = "g ⊙ (x − μ)/σ + b"


class LayerNorm(nn.Module):
    """h = g ⊙ (x − μ)/σ + b, with μ and σ over the features of one vector (Ba et al. 2016)."""

    def __init__(self, width: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.eps = width, eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x_BTD: Tensor, _start: int = 0) -> Tensor:
        """x, normalised."""
        expect("x", x_BTD, "batch", "length", self.width)
        return F.layer_norm(x_BTD, (self.width,), self.weight, self.bias, self.eps)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The norm."""
        yield Operation("norm", EQUATION, call.output, (LayerNorm.forward, "F.layer_norm("))


class BatchNorm(nn.Module):
    """The same formula with μ and σ over the sentences of a batch, for each feature at each position.

    In training it uses the statistics of the current batch, padding included, so that the result for a sentence depends
    on the others in its batch. In evaluation it uses running averages, which exist for `context` positions. Both are
    why it is rarely used for language.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, width: int, context: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.width, self.context, self.momentum, self.eps = width, context, momentum, eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("running_mean", torch.zeros(context, width))
        self.register_buffer("running_variance", torch.ones(context, width))

    def forward(self, x_BTD: Tensor, start: int = 0) -> Tensor:
        """x, normalised; `start` is its first position."""
        expect("x", x_BTD, "batch", "length", self.width)
        stop = start + x_BTD.size(1)
        expect_context(stop, self.context)
        mean_TD, variance_TD = self.running_mean[start:stop], self.running_variance[start:stop]
        if self.training and x_BTD.size(0):
            batch_mean_TD, batch_variance_TD = x_BTD.mean(0), x_BTD.var(0, unbiased=False)
            with torch.no_grad():
                mean_TD.lerp_(batch_mean_TD.to(mean_TD.dtype), self.momentum)
                variance_TD.lerp_(batch_variance_TD.to(mean_TD.dtype), self.momentum)
            mean_TD, variance_TD = batch_mean_TD, batch_variance_TD
        return (x_BTD - mean_TD) * (variance_TD + self.eps).rsqrt() * self.weight + self.bias

    def operations(self, call: Call) -> Iterator[Operation]:
        """The norm."""
        yield Operation("norm", EQUATION, call.output, (BatchNorm.forward, "return (x_BTD - mean"))


def make_norm(kind: NormKind, width: int, context: int) -> nn.Module:
    """A norm of this kind."""
    expect_one_of("norm", kind, get_args(NormKind))
    return LayerNorm(width) if kind == "layer" else BatchNorm(width, context)


class Residual(nn.Module):
    """x + sublayer(x), with the norm after the sum ("post", as in 2017) or before the sublayer ("pre")."""

    def __init__(self, norm: nn.Module, placement: Placement, dropout: float = 0.0) -> None:
        super().__init__()
        expect_one_of("placement", placement, get_args(Placement))
        self.norm, self.placement = norm, placement
        self.dropout = Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayer: Callable[[Tensor], Tensor], start: int = 0) -> Tensor:
        """x plus the output of the sublayer."""
        if self.placement == "pre":
            return x_BTD + self.dropout(sublayer(self.norm(x_BTD, start)))
        return self.norm(x_BTD + self.dropout(sublayer(x_BTD)), start)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The sum and, for post-norm, the norm."""
        if self.placement == "pre":
            yield Operation("add", "x + sublayer(norm(x))", call.output, (Residual.forward, "return x_BTD + "))
        else:
            sum_BTD, where = call.of(self.norm).args[0], (Residual.forward, "return self.norm(x_BTD + ")
            yield Operation("add", "x + sublayer(x)", sum_BTD, where)
            yield from call.tell(self.norm)
