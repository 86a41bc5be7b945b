"""Cross-entropy of a linear output layer that never materialises all logits.

    loss = Σ_n −log softmax(x_n Wᵀ + b)[y_n],  smoothed: (1 − ε) times it + ε times the mean over the vocabulary

With a vocabulary of thousands, the logits of a batch are by far the largest tensor of a model. Here they are computed a
few hundred rows at a time, together with their gradients, so that each chunk is used while in the cache and then
released.
"""

from typing import Any, cast

import torch
from torch import Tensor
from torch.nn import functional as F

from regard.blocks.shapes import expect

ROWS = 512


def linear_cross_entropy(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The summed training loss and, without gradient, the summed loss without label smoothing."""
    smooth, plain, _ = _apply(x_ND, weight_VD, bias_V, target_N, label_smoothing, counts=False)
    return smooth, plain


def linear_cross_entropy_and_hits(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, label_smoothing: float = 0.0
) -> tuple[Tensor, Tensor, Tensor]:
    """Same as `linear_cross_entropy`, and the number of targets that have the highest logit."""
    return _apply(x_ND, weight_VD, bias_V, target_N, label_smoothing, counts=True)


def _apply(
    x_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_N: Tensor, label_smoothing: float, counts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    expect("x", x_ND, "tokens", weight_VD.size(1))
    expect("target", target_N, x_ND.size(0))
    # a sum over the vocabulary needs the precision of the weights, even if earlier layers run under autocast
    with torch.autocast(x_ND.device.type, enabled=False):
        found = _LinearCrossEntropy.apply(
            x_ND.to(weight_VD.dtype), weight_VD, bias_V, target_N, label_smoothing, counts
        )  # type: ignore[no-untyped-call]
    return cast(tuple[Tensor, Tensor, Tensor], found)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x_ND: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_N: Tensor,
        label_smoothing: float,
        counts: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        x_gradient = torch.empty_like(x_ND) if ctx.needs_input_grad[0] else None
        weight_gradient = torch.zeros_like(weight_VD) if ctx.needs_input_grad[1] else None
        bias_gradient = torch.zeros_like(bias_V) if bias_V is not None and ctx.needs_input_grad[2] else None
        smooth, plain, hits = x_ND.new_zeros(()), x_ND.new_zeros(()), x_ND.new_zeros(())
        for begin in range(0, x_ND.size(0), ROWS):
            rows = slice(begin, begin + ROWS)
            logits_NV = F.linear(x_ND[rows], weight_VD, bias_V)
            target_N1 = target_N[rows, None]
            at_target_N1, highest_N1 = logits_NV.gather(1, target_N1), logits_NV.amax(1, keepdim=True)
            if counts:
                hits += (at_target_N1 == highest_N1).sum()
            # in place: the unnormalised softmax; the products below are divided by the sum of each row instead
            softmax_NV = logits_NV.sub_(highest_N1).exp_()
            sum_N1 = softmax_NV.sum(1, keepdim=True)
            log_sum_N1 = highest_N1 + sum_N1.log()
            plain += (log_sum_N1 - at_target_N1).sum()
            smooth += (log_sum_N1 - (1 - label_smoothing) * at_target_N1).sum()
            # ∂loss/∂logits = softmax − (1 − ε) [is target] − ε/V, whose last term is added for all rows at once, below
            gradient_NV = softmax_NV.scatter_add_(1, target_N1, sum_N1 * (label_smoothing - 1))
            if x_gradient is not None:
                torch.mm(gradient_NV, weight_VD, out=x_gradient[rows]).div_(sum_N1)
            if weight_gradient is not None:
                weight_gradient.addmm_(gradient_NV.mT, x_ND[rows] / sum_N1)
            if bias_gradient is not None:
                bias_gradient.addmv_(gradient_NV.mT, sum_N1[:, 0].reciprocal())
        if label_smoothing:
            # the mean over the logits of a row is its product with the mean over the weights
            x_sum_D, weight_mean_D = x_ND.sum(0), weight_VD.mean(0)
            smooth -= label_smoothing * (x_sum_D @ weight_mean_D)
            if bias_V is not None:
                smooth -= label_smoothing * len(x_ND) * bias_V.mean()
            if x_gradient is not None:
                x_gradient -= label_smoothing * weight_mean_D
            if weight_gradient is not None:
                weight_gradient -= label_smoothing / len(weight_VD) * x_sum_D
            if bias_gradient is not None:
                bias_gradient -= label_smoothing / len(weight_VD) * len(x_ND)
        ctx.save_for_backward(x_gradient, weight_gradient, bias_gradient)
        ctx.mark_non_differentiable(plain, hits)
        return smooth, plain, hits

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, _plain: Tensor, _hits: Tensor) -> tuple[Tensor | None, ...]:
        gradients = (None if gradient is None else gradient * upstream for gradient in ctx.saved_tensors)
        return (*gradients, None, None, None)
