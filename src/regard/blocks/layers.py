"""The layers of the Transformer: attention and feed-forward, each in a residual connection with a norm."""

from collections.abc import Callable

from torch import Tensor, nn

from regard.blocks.attention import Cache, KeyValue, MultiHeadAttention
from regard.blocks.feedforward import Activation, FeedForward
from regard.blocks.norms import Placement, Residual
from regard.blocks.positions import Rotary


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward.

    Args:
        norm: returns a new norm at each call.
        rotary: use rotary positions in self-attention.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        ff_width: int,
        norm: Callable[[], nn.Module],
        *,
        placement: Placement = "post",
        activation: Activation = "relu",
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, rotary=Rotary(width // heads) if rotary else None)
        self.feedforward = FeedForward(width, ff_width, activation)
        self.attention_residual = Residual(norm(), placement, dropout)
        self.feedforward_residual = Residual(norm(), placement, dropout)

    def forward(self, x_BTD: Tensor, allowed: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """The hidden states after this layer; with a cache, x continues the cached tokens."""
        start = cache.length if cache else 0
        x_BTD = self.attention_residual(x_BTD, lambda y_BTD: self.attention(y_BTD, None, allowed, cache), start)
        return self.feedforward_residual(x_BTD, self.feedforward, start)


class DecoderLayer(nn.Module):
    """Self-attention, cross-attention to the encoder's memory, then feed-forward. Arguments as in `EncoderLayer`."""

    def __init__(
        self,
        width: int,
        heads: int,
        ff_width: int,
        norm: Callable[[], nn.Module],
        *,
        memory_width: int | None = None,
        placement: Placement = "post",
        activation: Activation = "relu",
        dropout: float = 0.0,
        rotary: bool = False,
    ) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(width, heads, rotary=Rotary(width // heads) if rotary else None)
        self.cross = MultiHeadAttention(width, heads, memory_width=memory_width)
        self.feedforward = FeedForward(width, ff_width, activation)
        self.attention_residual = Residual(norm(), placement, dropout)
        self.cross_residual = Residual(norm(), placement, dropout)
        self.feedforward_residual = Residual(norm(), placement, dropout)

    def forward(
        self,
        x_BTD: Tensor,
        memory: Tensor | KeyValue,
        allowed: Tensor | None = None,
        memory_allowed: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """The hidden states after this layer; with a cache, x continues the cached tokens."""
        start = cache.length if cache else 0
        x_BTD = self.attention_residual(x_BTD, lambda y_BTD: self.attention(y_BTD, None, allowed, cache), start)
        x_BTD = self.cross_residual(x_BTD, lambda y_BTD: self.cross(y_BTD, memory, memory_allowed), start)
        return self.feedforward_residual(x_BTD, self.feedforward, start)
