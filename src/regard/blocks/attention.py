"""Multi-head attention: each head attends in its own K dimensions; W_O joins the heads.

MultiHead(x, memory) = Concat(head_1, ..., head_H) W_O,  head_i = Attention(x W_Q_i, memory W_K_i, memory W_V_i)
(Vaswani et al. 2017, section 3.2.2). Without a memory, this is self-attention: x attends to itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn

from regard.blocks.attend import Attend
from regard.blocks.linear import Linear
from regard.blocks.operations import Call, Operation
from regard.blocks.positions import Rotary
from regard.blocks.shapes import expect, expect_one_of

Score = Literal["dot", "scaled_dot"]


class KeyValue(NamedTuple):
    """Projected keys and values of a sequence."""

    key_BHSK: Tensor
    value_BHSK: Tensor

    def reorder(self, index_B: Tensor) -> "KeyValue":
        """Keys and values of the sentences `index_B`."""
        return KeyValue(*(x.index_select(0, index_B) for x in self))


@dataclass(frozen=True)
class CrossAttentionMemory:
    """Keys and values of the source sentences for each layer of a decoder."""

    layers: tuple[KeyValue, ...]
    allowed: Tensor
    sentence_B: Tensor
    """The index of each row's sentence; rows of the same sentence share its keys and values."""

    @classmethod
    def of(cls, layers: tuple[KeyValue, ...], allowed: Tensor) -> "CrossAttentionMemory":
        """A memory with one row per sentence."""
        return cls(layers, allowed, torch.arange(len(allowed), device=allowed.device))

    def reorder(self, index_B: Tensor) -> "CrossAttentionMemory":
        """The memory of the rows `index_B`; itself, if rows only change places within their sentence."""
        sentence_B = self.sentence_B[index_B]
        if torch.equal(sentence_B, self.sentence_B):
            return self
        layers = tuple(layer.reorder(index_B) for layer in self.layers)
        return CrossAttentionMemory(layers, self.allowed.index_select(0, index_B), sentence_B)


@dataclass
class Cache:
    """Key-value cache: keys and values of the tokens so far, in a buffer that doubles when it is full."""

    length: int = 0
    buffer: KeyValue | None = None

    def extend(self, new: KeyValue) -> KeyValue:
        """Appends `new` and returns all keys and values so far."""
        start, stop = self.length, self.length + new.key_BHSK.size(2)
        buffer = self.buffer or KeyValue(*(x_BHTK[:, :, :0] for x_BHTK in new))
        batch, heads, capacity, width = buffer.key_BHSK.shape
        expect("key", new.key_BHSK, batch, heads, "length", width)
        has_gradient = new.key_BHSK.requires_grad
        if has_gradient or stop > capacity:
            # a tensor with a gradient must not be overwritten, so spare capacity would be useless
            spare = 0 if has_gradient else stop
            buffer = KeyValue(*(self._append(old, x, spare) for old, x in zip(buffer, new, strict=True)))
        else:
            for old_BHSK, x_BHTK in zip(buffer, new, strict=True):
                old_BHSK[:, :, start:stop] = x_BHTK
        self.length, self.buffer = stop, buffer
        return KeyValue(*(x_BHSK[:, :, :stop] for x_BHSK in buffer))

    def _append(self, old_BHSK: Tensor, x_BHTK: Tensor, spare: int) -> Tensor:
        batch, heads, _, width = x_BHTK.shape
        return torch.cat((old_BHSK[:, :, : self.length], x_BHTK, x_BHTK.new_empty(batch, heads, spare, width)), dim=2)

    def reorder(self, index_B: Tensor) -> "Cache":
        """The cache of the sentences `index_B`."""
        return Cache(self.length, self.buffer and self.buffer.reorder(index_B))


class MultiHeadAttention(nn.Module):
    """Queries from x; keys and values from a memory of any width (cross-attention) or from x (self-attention).

    Args:
        out_width: output width, W_O being (width, out_width); default: `width`.
        score: "scaled_dot" divides the dot products by √K, "dot" does not.
        rotary: rotates queries and keys by their position; for self-attention only.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        memory_width: int | None = None,
        out_width: int | None = None,
        score: Score = "scaled_dot",
        bias: bool = True,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} cannot be split into {heads} heads; choose a multiple of heads")
        expect_one_of("score", score, get_args(Score))
        memory_width = width if memory_width is None else memory_width
        self.width, self.memory_width, self.heads = width, memory_width, heads
        self.query = Linear(width, width, bias=bias)
        self.key = Linear(memory_width, width, bias=bias)
        self.value = Linear(memory_width, width, bias=bias)
        self.out = Linear(width, width if out_width is None else out_width, bias=bias)
        self.rotary = rotary
        self.scale = 1.0 if score == "dot" else (width // heads) ** -0.5
        self.attend = Attend(heads)

    def forward(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeyValue | None = None,
        allowed: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """Attention from x to the memory (a tensor, or the result of `remember`), or to x itself.

        With a cache, x continues the cached tokens: it attends to them, too, and is appended to the cache.
        """
        expect("x", x_BTD, "batch", "length", self.width)
        if memory is not None and (cache is not None or self.rotary is not None):
            raise ValueError("a cache and rotary positions are for self-attention; a memory takes neither")
        start = cache.length if cache else 0
        query_BHTK = self._split(self.query(x_BTD))
        if self.rotary is not None:
            query_BHTK = self.rotary(query_BHTK, start)
        if isinstance(memory, KeyValue):
            key_BHSK, value_BHSK = memory
        else:
            key_BHSK, value_BHSK = self.remember(x_BTD if memory is None else memory, start)
        if cache is not None:
            key_BHSK, value_BHSK = cache.extend(KeyValue(key_BHSK, value_BHSK))
        attended_BHTK = self.attend(query_BHTK, key_BHSK, value_BHSK, allowed, self.scale)
        return self.out(attended_BHTK.transpose(1, 2).flatten(2))

    def remember(self, memory_BSM: Tensor, start: int = 0) -> KeyValue:
        """Keys and values of a memory, computed once for many queries; `start` is its first position."""
        expect("memory", memory_BSM, "batch", "length", self.memory_width)
        key_BHSK = self._split(self.key(memory_BSM))
        if self.rotary is not None:
            key_BHSK = self.rotary(key_BHSK, start)
        return KeyValue(key_BHSK, self._split(self.value(memory_BSM)))

    def _split(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.view(*x_BTD.shape[:2], self.heads, self.width // self.heads).transpose(1, 2)

    def operations(self, call: Call) -> Iterator[Operation]:
        """Queries, keys and values, the operations of the core, and W_O."""
        forward, remember = MultiHeadAttention.forward, MultiHeadAttention.remember
        query, keys, values, *attended = call.tell(self.attend)
        seen = "x_i" if len(call.args) < 2 or call.args[1] is None else "m_i"
        unrotated_BHTK = self._split(call.of(self.query).output)
        yield Operation("query", "q = W_Q x + b", unrotated_BHTK, (forward, "self._split(self.query("))
        if self.rotary is None:
            yield replace(keys, equation=f"k_i = W_K {seen} + b", where=(remember, "self._split(self.key("))
        else:
            line = "query_BHTK = self.rotary("
            yield replace(query, name="rotated query", equation="q ← R_t q", where=(forward, line))
            equation, line = f"k_i = R_i (W_K {seen} + b)", "key_BHSK = self.rotary("
            yield replace(keys, name="rotated keys", equation=equation, where=(remember, line))
        line = "return KeyValue(key_BHSK, self._split("
        yield replace(values, equation=f"v_i = W_V {seen} + b", where=(remember, line))
        yield from attended
        where = forward, "return self.out("
        yield Operation("joined heads", "[head_1, …, head_H]", call.of(self.out).args[0], where)
        yield Operation("W_O", "W_O [head_1, …, head_H] + b", call.output, where)
