"""Cross-entropy of a linear output layer, without ever holding all logits.

    loss = Σ_n −log softmax(x_n Wᵀ + b)[y_n],  smoothed: (1 − ε) of it, and ε of the mean over the vocabulary

A vocabulary of thousands makes the logits of a batch the largest tensor of a model by far. Here they are formed a few
hundred rows at a time, and the gradients with them, so that each chunk is used while it is in the cache and then
forgotten.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.blocks.shapes import expect

ROWS = 512


def linear_cross_entropy(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The summed loss to train on, and beside it, without gradient, the summed loss without smoothing."""
    smooth, plain, _ = _apply(x_ND, weight_VD, bias_V, target_N, smoothing, counts=False)
    return smooth, plain


def linear_cross_entropy_and_hits(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, smoothing: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """The same, and how many targets have the highest logit."""
    return _apply(x_ND, weight_VD, bias_V, target_N, smoothing, counts=True)


def _apply(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, smoothing: float, counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    expect("x", x_ND, "tokens", weight_VD.size(1))
    expect("target", target_N, x_ND.size(0))
    # a sum over a vocabulary needs the precision of the weights, whatever the layers before it are computed in
    with torch.autocast(x_ND.device.type, enabled=False):
        found = _LinearCrossEntropy.apply(x_ND.to(weight_VD.dtype), weight_VD, bias_V, target_N, smoothing, counts)  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor, Tensor], found)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        smoothing: float,
        counts: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x_gradient = torch.empty_like(x_ND) if ctx.needs_input_grad[0] else None
        weight_gradient = torch.zeros_like(weight_VD) if ctx.needs_input_grad[1] else None
        bias_gradient = torch.zeros_like(bias_V) if bias_V is not None and ctx.needs_input_grad[2] else None
        smooth, plain, hits = x_ND.new_zeros(()), x_ND.new_zeros(()), x_ND.new_zeros(())
        for begin in range(0, x_ND.size(0), ROWS):
            rows = slice(begin, begin + ROWS)
            logits_NV = F.linear(x_ND[rows], weight_VD, bias_V)
            at_target_N1 = target_N[rows, None]
            log_sum_N1 = logits_NV.logsumexp(1, keepdim=True)
            loss = (log_sum_N1 - logits_NV.gather(1, at_target_N1)).sum()
            plain += loss
            smooth += (1 - smoothing) * loss
            if smoothing:
                smooth += smoothing * (log_sum_N1.sum() - logits_NV.mean(1).sum())
            if counts:
                hits += (logits_NV.argmax(1) == target_N[rows]).sum()
            # ∂loss/∂logits = softmax − (1 − ε) [is target] − ε/V, in place of the logits
            gradient_NV = logits_NV.sub_(log_sum_N1).exp_()
            if smoothing:
                gradient_NV -= smoothing / weight_VD.size(0)
            gradient_NV.scatter_add_(
                1, at_target_N1, gradient_NV.new_full((1, 1), smoothing - 1).expand_as(at_target_N1)
            )
            if x_gradient is not None:
                torch.mm(gradient_NV, weight_VD, out=x_gradient[rows])
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient_NV.mT, x_ND[rows])
            if bias_gradient is not None:
                bias_gradient += gradient_NV.sum(0)
        ctx.save_for_backward(x_gradient, weight_gradient, bias_gradient)
        ctx.mark_non_differentiable(plain, hits)
        return smooth, plain, hits

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _plain: Tensor, _hits: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if gradient is None else gradient * upstream for gradient in ctx.saved_tensors)
        return (*gradients, None, None, None)
