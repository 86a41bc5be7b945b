"""The attention core: Attention(Q, K, V) = softmax(Q Kᵀ · scale) V  (Vaswani et al. 2017, eq. 1).

This is the only place where softmax is applied to scores. `attend` uses the fastest implementation: torch's fused
kernel, which never materialises the weights, or, for few keys on a CPU, batched small matrix products.
`attend_explicitly` also returns the weights; `weigh` is for scores that are not dot products. All agree in outputs and
gradients. A query whose keys are all masked gets zeros, not NaN.

Models hold the core as a module, an `AttentionCore`, because `capture` reads attention and `intervene` changes it by
means of torch's forward hooks.
"""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from regard.blocks import masks
from regard.blocks.operations import KEYS, ROWS, Call, Operation
from regard.blocks.shapes import expect
from regard.blocks.torch_private import softmax_backward

FEW = 128  # keys; for more, the fused kernel is as fast and needs less memory


def attend(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None = None, scale: float | None = None
) -> Tensor:
    """The attention output of each query, without the weights. `scale` defaults to 1/√K."""
    check_attend(query_BHTK, key_BHSK, value_BHSE, allowed)
    if _are_few(query_BHTK, key_BHSK):
        scale = query_BHTK.size(-1) ** -0.5 if scale is None else scale
        return cast(Tensor, _FewKeys.apply(query_BHTK, key_BHSK, value_BHSE, allowed, scale))  # type: ignore[no-untyped-call]
    if allowed is not None and masks.is_causal(allowed):  # the kernel then skips the masked half
        return F.scaled_dot_product_attention(query_BHTK, key_BHSK, value_BHSE, is_causal=True, scale=scale)
    return F.scaled_dot_product_attention(query_BHTK, key_BHSK, value_BHSE, attn_mask=allowed, scale=scale)


def _are_few(query_BHTK: Tensor, key_BHSK: Tensor) -> bool:
    """Whether small products are faster than the fused kernel; never during tracing, which cannot export them."""
    (batch, _, queries, _), keys = query_BHTK.shape, key_BHSK.size(2)
    is_worth_it = _is_plain(query_BHTK) and batch > 1 and queries > 1 and keys <= FEW
    return is_worth_it and not torch.jit.is_tracing()  # type: ignore[attr-defined,no-untyped-call]


def _is_plain(x: Tensor) -> bool:
    """On a CPU, in full precision."""
    is_full = x.dtype in (torch.float32, torch.float64) and not torch.is_autocast_enabled("cpu")
    return is_full and x.device.type == "cpu"


class _FewKeys(torch.autograd.Function):
    """Attention as batched products of N = B · H small matrices; the weights are saved for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None, scale: float
    ) -> Tensor:
        batch, heads, queries, _ = query_BHTK.shape
        query_NTK, key_NSK, value_NSE = (x.flatten(0, 1) for x in (query_BHTK, key_BHSK, value_BHSE))
        mask_bias = None
        if allowed is not None:
            # the lowest finite number, as in `weigh`
            mask_bias = query_NTK.new_zeros(allowed.shape).masked_fill_(~allowed, torch.finfo(query_NTK.dtype).min)
        weights_NTS = _weights(query_NTK, key_NSK, mask_bias, scale, heads)
        if allowed is not None and not bool((sees := allowed.any(-1, keepdim=True)).all()):
            weights_NTS.view(batch, heads, queries, -1).mul_(sees)
        ctx.save_for_backward(query_NTK, key_NSK, value_NSE, weights_NTS)
        ctx.scale = scale
        return torch.bmm(weights_NTS, value_NSE).view(batch, heads, queries, value_NSE.size(2))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream_BHTE: Tensor) -> tuple[Tensor | None, ...]:
        query_NTK, key_NSK, value_NSE, weights_NTS = ctx.saved_tensors
        upstream_NTE = upstream_BHTE.flatten(0, 1)
        # ∂softmax: weights ⊙ (∂weights − Σ_s weights ⊙ ∂weights)
        weights_gradient_NTS = torch.bmm(upstream_NTE, value_NSE.mT)
        scores_gradient_NTS = softmax_backward(weights_gradient_NTS, weights_NTS)
        scores_gradient_NTS.mul_(ctx.scale)
        gradients = (
            torch.bmm(scores_gradient_NTS, key_NSK),
            torch.bmm(scores_gradient_NTS.mT, query_NTK),
            torch.bmm(weights_NTS.mT, upstream_NTE),
        )
        return (*(x.view(*upstream_BHTE.shape[:2], *x.shape[1:]) for x in gradients), None, None)


def _weights(query_NTK: Tensor, key_NSK: Tensor, mask_bias: Tensor | None, scale: float, heads: int) -> Tensor:
    """softmax(Q Kᵀ · scale + mask_bias), with `mask_bias` broadcast to BHTS."""
    (count, queries, _), keys = query_NTK.shape, key_NSK.size(1)
    if mask_bias is None:
        scores_NTS = query_NTK.new_empty(count, queries, keys)
    else:
        whole_BHTS = mask_bias.expand(count // heads, heads, queries, keys)
        scores_NTS = whole_BHTS.clone(memory_format=torch.contiguous_format).flatten(0, 1)
    return scores_NTS.baddbmm_(query_NTK, key_NSK.mT, beta=0 if mask_bias is None else 1, alpha=scale).softmax(-1)


def attend_searching(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, mask_bias: Tensor | None, scale: float
) -> Tensor:
    """Same as `attend` for the few queries of a decoding step, without gradients and without checks.

    Args:
        mask_bias: 0 where a key may be seen and -inf elsewhere, or None; each query must see at least one key.
    """
    if len(query_BHTK) == 1 or not _is_plain(query_BHTK):
        return F.scaled_dot_product_attention(query_BHTK, key_BHSK, value_BHSE, attn_mask=mask_bias, scale=scale)
    query_NTK, key_NSK, value_NSE = (x.flatten(0, 1) for x in (query_BHTK, key_BHSK, value_BHSE))
    weights_NTS = _weights(query_NTK, key_NSK, mask_bias, scale, query_BHTK.size(1))
    return torch.bmm(weights_NTS, value_NSE).view(*query_BHTK.shape[:3], value_BHSE.size(3))


def attend_explicitly(
    query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Same as `attend`, computed step by step; returns the output and the weights."""
    check_attend(query_BHTK, key_BHSK, value_BHSE, allowed)
    dtype, scale = query_BHTK.dtype, query_BHTK.size(-1) ** -0.5 if scale is None else scale
    if dtype in (torch.float16, torch.bfloat16):  # like the fused kernel, which accumulates in float32
        query_BHTK, key_BHSK, value_BHSE = query_BHTK.float(), key_BHSK.float(), value_BHSE.float()
    scores_BHTS = query_BHTK @ key_BHSK.mT * scale
    attended_BHTE, weights_BHTS = weigh(scores_BHTS, value_BHSE, allowed)
    return attended_BHTE.to(dtype), weights_BHTS


def weigh(scores_BHTS: Tensor, value_BHSE: Tensor, allowed: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Masked softmax of the scores, then the weighted sum of the values; returns the sum and the weights."""
    expect("scores", scores_BHTS, "batch", "heads", "queries", "keys")
    batch, heads, queries, keys = scores_BHTS.shape
    expect("value", value_BHSE, batch, heads, keys, "width")
    check_allowed(allowed, (batch, heads, queries, keys))
    if allowed is None:
        weights_BHTS = scores_BHTS.softmax(-1)
    else:
        # the lowest finite number, not -inf: in a fully masked row, softmax of -inf is NaN, and so is its gradient
        lowest = torch.finfo(scores_BHTS.dtype).min
        weights_BHTS = scores_BHTS.masked_fill(~allowed, lowest).softmax(-1).masked_fill(~allowed, 0.0)
    return weights_BHTS @ value_BHSE, weights_BHTS


def check_attend(query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None) -> None:
    """Raises `ValueError` if the shapes do not match."""
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


class AttentionCore(nn.Module):
    """Attention as a module, so that hooks can read and change its inputs and outputs.

    All its arguments are positional. Its output is that of the heads, BHTE, or a tuple that starts with it. Its methods
    provide what `capture`, `intervene` and a walk need.

    Args:
        scaled: whether its scores are dot products multiplied by a scale.
    """

    def __init__(self, heads: int, *, scaled: bool) -> None:
        super().__init__()
        self.heads, self.scaled = heads, scaled

    def queries_and_keys(self, args: tuple[Any, ...]) -> tuple[int, int]:
        """The number of queries and of keys in a call with these arguments."""
        raise NotImplementedError

    def weights(
        self, args: tuple[Any, ...], output: Any, heads: Sequence[int] | None, rows: Sequence[int] | None, /
    ) -> Tensor:
        """The weights of a call, BHTS, for these heads and queries only; None: for all."""
        raise NotImplementedError

    def unmasked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same arguments without a mask."""
        raise NotImplementedError

    def unscaled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The same arguments without scaling; only called if `scaled`."""
        raise NotImplementedError

    def operations(self, call: Call) -> Iterator[Operation]:
        """The operations a walk shows: queries, keys and values if it has them, scores, mask, softmax, weighted sum."""
        raise NotImplementedError


class Attend(AttentionCore):
    """`attend` as a module."""

    def __init__(self, heads: int) -> None:
        super().__init__(heads, scaled=True)

    def forward(
        self, query_BHTK: Tensor, key_BHSK: Tensor, value_BHSE: Tensor, allowed: Tensor | None, scale: float, /
    ) -> Tensor:
        """The attention output of each query."""
        return attend(query_BHTK, key_BHSK, value_BHSE, allowed, scale)

    def queries_and_keys(self, args: tuple[Any, ...]) -> tuple[int, int]:
        """T and S."""
        query_BHTK, key_BHSK, *_ = args
        return query_BHTK.size(2), key_BHSK.size(2)

    def weights(
        self, args: tuple[Any, ...], _output: Any, heads: Sequence[int] | None, rows: Sequence[int] | None, /
    ) -> Tensor:
        """Recomputed from the inputs, because the fused kernel does not return them."""
        query, key, value, allowed, scale = args
        allowed = None if allowed is None else _chosen(allowed, heads, rows)
        no_values = _chosen(value, heads, None)[..., :0]  # only the weights are needed, not the output
        return attend_explicitly(_chosen(query, heads, rows), _chosen(key, heads, None), no_values, allowed, scale)[1]

    def unmasked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """No mask."""
        return (*args[:3], None, args[4])

    def unscaled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A scale of 1."""
        return (*args[:4], 1.0)

    def operations(self, call: Call) -> Iterator[Operation]:
        """From the query to the weighted sum."""
        query_BHTK, key_BHSK, value_BHSE, allowed, scale = call.args
        yield Operation("query", "q", query_BHTK, None)
        yield Operation("keys", "k_i", key_BHSK, None, ROWS)
        yield Operation("values", "v_i", value_BHSE, None, ROWS)
        where, dots_BHTS = (attend_explicitly, "scores_BHTS = query_BHTK @"), query_BHTK @ key_BHSK.mT
        yield Operation("dot products", "q · k_i", dots_BHTS, where, KEYS)
        scores_BHTS = dots_BHTS * scale
        if scale != 1:
            yield Operation("scaled", "s_i = q · k_i / √K", scores_BHTS, where, KEYS)
        attended_BHTE, weights_BHTS = attend_explicitly(query_BHTK, key_BHSK, value_BHSE, allowed, scale)
        yield from weighing(scores_BHTS, allowed, weights_BHTS, attended_BHTE)


class Weigh(AttentionCore):
    """`weigh` as a module."""

    def forward(
        self, scores_BHTS: Tensor, value_BHSE: Tensor, allowed: Tensor | None, scale: float | None, /
    ) -> tuple[Tensor, Tensor]:
        """The attention output of each query, and the weights."""
        return weigh(_scaled(scores_BHTS, scale), value_BHSE, allowed)

    def queries_and_keys(self, args: tuple[Any, ...]) -> tuple[int, int]:
        """T and S."""
        queries, keys = args[0].shape[2:]
        return queries, keys

    def weights(
        self, _args: tuple[Any, ...], output: Any, heads: Sequence[int] | None, rows: Sequence[int] | None, /
    ) -> Tensor:
        """The weights in the output."""
        return _chosen(output[1], heads, rows).clone()

    def unmasked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """No mask."""
        return (*args[:2], None, args[3])

    def unscaled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """A scale of 1."""
        return (*args[:3], 1.0)

    def operations(self, call: Call) -> Iterator[Operation]:
        """From the values to the weighted sum."""
        (scores_BHTS, value_BHSE, allowed, scale), (attended_BHTE, weights_BHTS) = call.args, call.output
        yield Operation("values", "v_i", value_BHSE, None, ROWS)
        scores_BHTS = _scaled(scores_BHTS, scale)
        yield Operation("scores", "s_i", scores_BHTS, None, KEYS)
        yield from weighing(scores_BHTS, allowed, weights_BHTS, attended_BHTE)


def weighing(
    scores_BHTS: Tensor, allowed: Tensor | None, weights_BHTS: Tensor, attended_BHTE: Tensor
) -> Iterator[Operation]:
    """The operations of `weigh`: mask, softmax, weighted sum."""
    is_masked = allowed is not None and not bool(allowed.all())
    line = f"weights_BHTS = scores_BHTS.{'masked_fill' if is_masked else 'softmax'}("
    if is_masked:
        assert allowed is not None
        masked_BHTS = scores_BHTS.masked_fill(~allowed, torch.nan)
        yield Operation("mask", "s_i if allowed", masked_BHTS, (weigh, line), KEYS)
    yield Operation("softmax", "α = softmax(s)", weights_BHTS, (weigh, line), KEYS)
    yield Operation("weighted sum", "Σ_i α_i v_i", attended_BHTE, (weigh, "return weights_BHTS @ value"))


def _scaled(scores_BHTS: Tensor, scale: float | None) -> Tensor:
    return scores_BHTS if scale is None else scores_BHTS * scale


def _chosen(x_BHTS: Tensor, heads: Sequence[int] | None, rows: Sequence[int] | None) -> Tensor:
    """The selected heads and rows; a dimension that broadcasts is left unchanged."""
    if heads is not None and x_BHTS.size(1) > 1:
        x_BHTS = x_BHTS[:, heads]
    if rows is not None and x_BHTS.size(2) > 1:
        x_BHTS = x_BHTS[:, :, rows]
    return x_BHTS
