"""A small model whose one layer runs several times, and one with two attention cores in a module."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from helpers import randomise
from regard.blocks import masks
from regard.blocks.attend import Attend, AttentionCore, attend, attend_explicitly
from regard.blocks.attention import Cache
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.operations import Call, Operation
from regard.config import Config, Positive, Rate
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Inputs, Trace

TOKENS = (3, 4, 5, 6, 2)


@dataclass(frozen=True, kw_only=True)
class LoopedConfig(Config):
    kind: Literal["looped"] = "looped"
    vocab_size: Positive = 9
    width: Positive = 8
    runs: Positive = 3
    dropout: Rate = 0.0

    def build(self) -> "Looped":
        return Looped(self)


class Looped(nn.Module):
    """A decoder whose one layer runs `stops` times, by default three."""

    looks: ClassVar = {"layer.attention": ("text", "text")}
    parts: ClassVar = dict.fromkeys(("tokens", "layer", "norm"), "text")
    answering: ClassVar = "layer"

    def __init__(self, config: LoopedConfig) -> None:
        super().__init__()
        self.config, self.stops = config, config.runs
        self.tokens = TokenEmbedding(config.vocab_size, config.width)
        norm = partial(LayerNorm, config.width)
        self.layer = EncoderLayer(config.width, 2, 12, norm, placement="pre", dropout=config.dropout, rotary=True)
        self.norm = norm()

    @property
    def repeated(self) -> dict[str, int]:
        return {"layer": self.config.runs}

    def forward(self, tokens_BT: Tensor) -> Tensor:
        return self.answer(self.hidden(tokens_BT))

    def hidden(self, tokens_BT: Tensor) -> Tensor:
        return self._read(tokens_BT, [None] * self.stops)

    def answer(self, x_BTD: Tensor) -> Tensor:
        return self.tokens.logits(self.norm(x_BTD))

    def start(self) -> list[Cache]:
        return [Cache() for _ in range(self.stops)]

    def step(self, tokens_B: Tensor, caches: Sequence[Cache]) -> Tensor:
        return self.answer(self._read(tokens_B[:, None], caches))[:, 0]

    def _read(self, tokens_BT: Tensor, caches: Sequence[Cache | None]) -> Tensor:
        x_BTD, length = self.tokens(tokens_BT), tokens_BT.size(1)
        allowed = masks.causal(length, length) if length > 1 else None
        for cache in caches:
            x_BTD = self.layer(x_BTD, allowed, cache)
        return x_BTD


class Window(AttentionCore):
    """Dot-product attention to the nearest keys only: a custom attention core."""

    def __init__(self, heads: int, reach: int) -> None:
        super().__init__(heads, scaled=True)
        self.reach = reach

    def forward(self, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor | None, scale: float, /) -> Tensor:
        return attend(query, key, value, self._near(key, allowed), scale)

    def queries_and_keys(self, args: tuple[Any, ...]) -> tuple[int, int]:
        return args[0].size(2), args[1].size(2)

    def weights(self, args: tuple[Any, ...], _output: Any, heads: Any, rows: Any, /) -> Tensor:
        query, key, value, allowed, scale = args
        weights = attend_explicitly(query, key, value, self._near(key, allowed), scale)[1]
        return weights[:, heads or slice(None)][:, :, rows or slice(None)]

    def unmasked(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*args[:3], torch.ones(1, 1, 1, 1, dtype=torch.bool), args[4])

    def unscaled(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*args[:4], 1.0)

    def operations(self, call: Call) -> Iterator[Operation]:
        query, key, value, allowed, scale = call.args
        found, weights = attend_explicitly(query, key, value, self._near(key, allowed), scale)
        yield Operation("query", "q", query, None)
        yield Operation("softmax", "α", weights, (Window.forward, "return attend("), ("keys",))
        yield Operation("weighted sum", "Σ_i α_i v_i", found, None)

    def _near(self, key: Tensor, allowed: Tensor | None) -> Tensor:
        places = torch.arange(key.size(2))
        return (places[:, None] - places).abs()[None, None] <= self.reach if allowed is None else allowed


class Both(nn.Module):
    """The sum of two heads that attend to neighbours and four that attend to all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.near, self.far = Window(2, reach=1), Attend(4)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self._look(self.near, x_BTD) + self._look(self.far, x_BTD)

    def _look(self, core: AttentionCore, x_BTD: Tensor) -> Tensor:
        x_BHTK = x_BTD.unflatten(2, (core.heads, -1)).transpose(1, 2)
        return core(x_BHTK, x_BHTK, x_BHTK, None, 0.5).transpose(1, 2).flatten(2)

    def operations(self, call: Call) -> Iterator[Operation]:
        yield Operation("add", "near + far", call.output, None)


class TwoCores(nn.Module):
    looks: ClassVar = {"both.*": ("text", "text")}
    parts: ClassVar = {"tokens": "text", "both": "text"}

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.both = TokenEmbedding(9, 8), Both()

    def forward(self, tokens_BT: Tensor) -> Tensor:
        return self.tokens.logits(self.both(self.tokens(tokens_BT)))


def looped(**changes: Any) -> Looped:
    torch.manual_seed(1)
    return randomise(LoopedConfig(**changes).build()).eval()


def read(model: nn.Module) -> Trace:
    stream = text_stream(TOKENS, tuple("abcd."), TextLayout((0, 0, 1, 2, -1), ("ab", "c", "d")))
    inputs = (torch.tensor([TOKENS]),)
    return Trace(model, inputs, {"text": stream}, "text", stream, TOKENS, lambda tokens: [str(t) for t in tokens])


class LoopedSubject:
    """A pipeline of a model whose one layer runs three times; every text has the same tokens."""

    def __init__(self) -> None:
        self.model = looped()

    accepts: ClassVar = {"text": "text"}

    def count(self, inputs: Inputs) -> int:
        return len(inputs["text"])

    def trace(self, _inputs: Inputs, _target: object = None) -> Trace:
        return read(self.model)

    def alternatives(self, _inputs: Inputs, _count: int) -> list[Any]:
        return []

    def generate(self, _inputs: Inputs) -> Iterator[Any]:
        return iter(())
