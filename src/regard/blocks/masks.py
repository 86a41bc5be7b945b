"""Attention masks: True means "may be seen". Masks combine with `&`.

Every mask broadcasts to (batch, heads, query length, key length).
"""

from functools import lru_cache

import torch
from torch import Tensor


def padding(is_padding_BS: Tensor) -> Tensor:
    """Padding mask: no query sees padding."""
    if is_padding_BS.dim() != 2 or is_padding_BS.dtype != torch.bool:
        raise ValueError(
            f"is_padding should be bool of shape (batch, length), "
            f"got {is_padding_BS.dtype} of shape {tuple(is_padding_BS.shape)}"
        )
    return ~is_padding_BS[:, None, None, :]


def no_padding(like: Tensor) -> Tensor:
    """is_padding_BS for tokens or vectors without padding, all False."""
    return torch.zeros(like.shape[:2], dtype=torch.bool, device=like.device)


@lru_cache(maxsize=8)
@torch.inference_mode(False)  # otherwise a mask made in inference mode could not be used in training
def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Causal mask: no query sees the future. The last query is aligned with the last key; others may be cached."""
    return window(queries, keys, left=keys, right=0, device=device)


def is_causal(allowed: Tensor) -> bool:
    """Whether this is the mask object that `causal` returns for a whole text; a fused kernel then needs no mask."""
    queries, keys = allowed.shape[2:]
    return queries == keys and len(allowed) == 1 and allowed is causal(queries, keys, allowed.device)


def window(queries: int, keys: int, left: int, right: int, device: torch.device | None = None) -> Tensor:
    """Window mask: each query sees `left` keys back and `right` ahead. The last query is aligned with the last key."""
    if queries > keys:
        raise ValueError(f"{queries} queries but only {keys} keys: each query needs a key at its own position")
    if left < 0 or right < 0:
        raise ValueError(f"left and right of a window must be at least 0, got left {left} and right {right}")
    query_T1 = torch.arange(keys - queries, keys, device=device)[:, None]
    key_1S = torch.arange(keys, device=device)[None, :]
    allowed_TS = (key_1S >= query_T1 - left) & (key_1S <= query_T1 + right)
    return allowed_TS[None, None]
