"""The attention core: Attention(Q, K, V) = softmax(Q Kᵀ · scale) V  (Vaswani et al. 2017, eq. 1).

This is the only place where softmax meets scores. `attend` takes torch's fused kernel and never forms the weights;
`attend_explicitly` forms them; `weigh` serves scores that are not dot products. All agree in outputs and gradients. A
query that may see nothing gets zeros, not NaN.

Models hold the core as a module, `Attend` or `Weigh`, because torch's hooks on it are how `capture` looks at attention
and `intervene` changes it.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks import masks
from regard.blocks.shapes import expect


def attend(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """What each query finds, by the fused kernel. `scale` is 1/√K unless given."""
    check_attend(query_BHTK, key_BHSK, value_BHSE, allowed)
    if allowed is not None and masks.is_causal(allowed):  # the kernel then leaves out what is not seen
        return F.scaled_dot_product_attention(query_BHTK, key_BHSK, value_BHSE, is_causal=True, scale=scale)
    return F.scaled_dot_product_attention(query_BHTK, key_BHSK, value_BHSE, attn_mask=allowed, scale=scale)


def attend_explicitly(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """The same as `attend`, step by step, and the weights with it."""
    check_attend(query_BHTK, key_BHSK, value_BHSE, allowed)
    dtype, scale = query_BHTK.dtype, query_BHTK.size(-1) ** -0.5 if scale is None else scale
    if dtype in (torch.float16, torch.bfloat16):  # like the fused kernel, which sums in float32
        query_BHTK, key_BHSK, value_BHSE = query_BHTK.float(), key_BHSK.float(), value_BHSE.float()
    scores_BHTS = query_BHTK @ key_BHSK.mT * scale
    found_BHTE, weights_BHTS = weigh(scores_BHTS, value_BHSE, allowed)
    return found_BHTE.to(dtype), weights_BHTS


def weigh(scores_BHTS: Tensor, value_BHSE: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Softmax of the scores over what may be seen, the sum of the values by these weights, and the weights."""
    expect("scores", scores_BHTS, "batch", "heads", "queries", "keys")
    batch, heads, queries, keys = scores_BHTS.shape
    expect("value", value_BHSE, batch, heads, keys, "width")
    check_allowed(allowed, (batch, heads, queries, keys))
    if allowed is None:
        weights_BHTS = scores_BHTS.softmax(-1)
    else:
        # the lowest finite number, not -inf: in a row that sees nothing, softmax of -inf is NaN, and so is its gradient
        lowest = torch.finfo(scores_BHTS.dtype).min
        weights_BHTS = scores_BHTS.masked_fill(~allowed, lowest).softmax(-1).masked_fill(~allowed, 0.0)
    return weights_BHTS @ value_BHSE, weights_BHTS


def check_attend(query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None) -> None:
    """Raises `ValueError` where shapes do not fit together."""
    expect("query", query_BHTK, "batch", "heads", "queries", "width")
    batch, heads, queries, width = query_BHTK.shape
    expect("key", key_BHSK, batch, heads, "keys", width)
    keys = key_BHSK.size(2)
    expect("value", value_BHSE, batch, heads, keys, "width")
    check_allowed(allowed, (batch, heads, queries, keys))


def check_allowed(allowed: Tensor | None, full: tuple[int, int, int, int]) -> None:
    """Raises `ValueError` unless the mask is bool and broadcasts to (batch, heads, queries, keys)."""
    if allowed is None:
        return
    if allowed.dtype != torch.bool:
        raise ValueError(f"allowed should be bool, True where a key may be seen, got {allowed.dtype}")
    if allowed.dim() != 4 or any(got not in (1, size) for got, size in zip(allowed.shape, full, strict=True)):
        raise ValueError(f"allowed should have or broadcast to shape {full}, got {tuple(allowed.shape)}")


class Attend(nn.Module):
    """`attend` as a module, so that hooks can see and change what goes in and comes out."""

    def forward(
        self, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None, scale: float, /
    ) -> Tensor:
        """What each query finds."""
        return attend(query_BHTK, key_BHSK, value_BHSE, allowed, scale)


class Weigh(nn.Module):
    """`weigh` as a module, so that hooks can see and change what goes in and comes out."""

    def forward(self, scores_BHTS: Tensor, value_BHSE: Tensor, allowed: Tensor | None, /) -> tuple[Tensor, Tensor]:
        """What each query finds, and the weights."""
        return weigh(scores_BHTS, value_BHSE, allowed)
