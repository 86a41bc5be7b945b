"""Multi-head attention: heads that each ask, look and answer in their own K dimensions, joined by W_O.

MultiHead(x, memory) = Concat(head_1, ..., head_H) W_O,  head_i = Attention(x W_Q_i, memory W_K_i, memory W_V_i)
(Vaswani et al. 2017, section 3.2.2). Without a memory, x looks at itself.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn

from regard.blocks.attend import Attend
from regard.blocks.positions import Rotary
from regard.blocks.shapes import expect


class KeyValue(NamedTuple):
    """Keys and values of a sequence, ready to be looked at."""

    key_BHSK: Tensor
    value_BHSK: Tensor

    def reorder(self, index_B: Tensor) -> "KeyValue":
        """Keys and values of the sentences that `index_B` names."""
        return KeyValue(*(x_BHSK.index_select(0, index_B) for x_BHSK in self))


@dataclass
class Cache:
    """Keys and values of the tokens so far, in a buffer that doubles when it is full."""

    length: int = 0
    buffer: KeyValue | None = None

    def extend(self, new: KeyValue) -> KeyValue:
        """Appends `new` and returns all keys and values so far."""
        stop = self.length + new.key_BHSK.size(2)
        if self.buffer is None or stop > self.buffer.key_BHSK.size(2):
            self.buffer = KeyValue(*(self._room(i, x_BHTK, 2 * stop) for i, x_BHTK in enumerate(new)))
        for buffer_BHSK, x_BHTK in zip(self.buffer, new, strict=True):
            buffer_BHSK[:, :, self.length : stop] = x_BHTK
        self.length = stop
        return KeyValue(*(buffer_BHSK[:, :, :stop] for buffer_BHSK in self.buffer))

    def _room(self, which: int, like_BHTK: Tensor, capacity: int) -> Tensor:
        batch, heads, _, width = like_BHTK.shape
        room_BHSK = like_BHTK.new_empty(batch, heads, capacity, width)
        if self.buffer is not None:
            room_BHSK[:, :, : self.length] = self.buffer[which][:, :, : self.length]
        return room_BHSK

    def reorder(self, index_B: Tensor) -> "Cache":
        """The cache of the sentences that `index_B` names."""
        return Cache(self.length, self.buffer and self.buffer.reorder(index_B))


class MultiHeadAttention(nn.Module):
    """Queries from x; keys and values from a memory of any width, or from x itself.

    Args:
        out_width: width of the result, W_O being (width, out_width); `width` unless given.
        score: "scaled_dot" divides the dot products by √K, "dot" does not.
        rotary: turns queries and keys by their position; for self-attention only.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        memory_width: int | None = None,
        out_width: int | None = None,
        score: Literal["dot", "scaled_dot"] = "scaled_dot",
        bias: bool = True,
        rotary: Rotary | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or width % heads:
            raise ValueError(f"width {width} cannot be split among {heads} heads; choose a multiple of the heads")
        memory_width = memory_width or width
        self.width, self.memory_width, self.heads = width, memory_width, heads
        self.query = nn.Linear(width, width, bias=bias)
        self.key = nn.Linear(memory_width, width, bias=bias)
        self.value = nn.Linear(memory_width, width, bias=bias)
        self.out = nn.Linear(width, out_width or width, bias=bias)
        self.rotary = rotary
        self.scale = 1.0 if score == "dot" else (width // heads) ** -0.5
        self.attend = Attend()

    def forward(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeyValue | None = None,
        allowed: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """What x finds in the memory (a tensor, or what `remember` made of it), or in itself.

        With a cache, x continues the tokens in it: x looks at them, too, and is added to them.
        """
        expect("x", x_BTD, "batch", "length", self.width)
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
        found_BHTK = self.attend(query_BHTK, key_BHSK, value_BHSK, allowed, self.scale)
        return self.out(found_BHTK.transpose(1, 2).flatten(2))

    def remember(self, memory_BSM: Tensor, start: int = 0) -> KeyValue:
        """Keys and values of a memory, so that many queries can share them; `start` is its first position."""
        expect("memory", memory_BSM, "batch", "length", self.memory_width)
        key_BHSK = self._split(self.key(memory_BSM))
        if self.rotary is not None:
            key_BHSK = self.rotary(key_BHSK, start)
        return KeyValue(key_BHSK, self._split(self.value(memory_BSM)))

    def _split(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.view(*x_BTD.shape[:2], self.heads, -1).transpose(1, 2)
