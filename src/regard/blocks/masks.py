"""Masks say what may be seen: True means "may be seen", and masks combine with `&`.

Every mask broadcasts to (batch, heads, query length, key length).
"""

from functools import lru_cache

import torch
from torch import Tensor


def padding(is_padding_BS: Tensor) -> Tensor:
    """Nobody sees padding."""
    if is_padding_BS.dim() != 2 or is_padding_BS.dtype != torch.bool:
        raise ValueError(
            f"is_padding should be bool of shape (batch, length), "
            f"got {is_padding_BS.dtype} of shape {tuple(is_padding_BS.shape)}"
        )
    return ~is_padding_BS[:, None, None, :]


def no_padding(like: Tensor) -> Tensor:
    """is_padding_BS of tokens or vectors among which there is none, for what needs a mask all the same."""
    return torch.zeros(like.shape[:2], dtype=torch.bool, device=like.device)


@lru_cache(maxsize=8)
@torch.inference_mode(False)  # or else a mask made in inference mode could not serve in training
def causal(queries: int, keys: int, device: torch.device | None = None) -> Tensor:
    """Nobody sees the future. The last query stands at the last key, so that a cache may hold earlier keys."""
    return window(queries, keys, left=keys, right=0, device=device)


def is_causal(allowed: Tensor) -> bool:
    """Whether this is the very mask that `causal` gives for a whole text, which a fused kernel need not be shown."""
    queries, keys = allowed.shape[2:]
    return queries == keys and len(allowed) == 1 and allowed is causal(queries, keys, allowed.device)


def window(queries: int, keys: int, left: int, right: int, device: torch.device | None = None) -> Tensor:
    """Everybody sees `left` positions back and `right` ahead. The last query stands at the last key."""
    if queries > keys:
        raise ValueError(f"{queries} queries over {keys} keys: a query needs the key of its own position")
    if left < 0 or right < 0:
        raise ValueError(f"a window reaches 0 or more positions, got left {left} and right {right}")
    query_T1 = torch.arange(keys - queries, keys, device=device)[:, None]
    key_1S = torch.arange(keys, device=device)[None, :]
    allowed_TS = (key_1S >= query_T1 - left) & (key_1S <= query_T1 + right)
    return allowed_TS[None, None]
