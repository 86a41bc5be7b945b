"""A trace of a model on one input: its streams of tokens, its output, and its attention layers.

All inspection goes through a `Trace`. A translator's trace has a sentence and its translation, as the streams "source"
and "target". Figures, the explorer and the measures in this package do not depend on the model: a new one works with
all of them once it declares which stream attends to which (`looks`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from regard.blocks.capture import attention_cores, capture, find
from regard.errors import RegardError
from regard.models.interface import Autoregressive, Observable


@dataclass(frozen=True)
class Stream:
    """A sequence of tokens that a model reads or writes."""

    tokens: tuple[int, ...]
    pieces: tuple[str, ...]
    """The text of each token."""
    medium: str
    """The medium of the tokens: a key of `regard.explain.media.MEDIA`."""
    layout: Any
    """What the medium needs to display the stream, such as its words: a frozen dataclass."""


@dataclass(frozen=True)
class Look:
    """One attention layer of a model."""

    path: str
    asks: str
    """The stream of the queries."""
    answers: str
    """The stream of the keys and values."""
    heads: int
    scaled: bool
    """Whether its scores are dot products, which may be divided by √K."""


@dataclass(frozen=True)
class TokenProbability:
    """The probability of a token, and the most probable tokens at its position."""

    probability: float
    others: tuple[tuple[int, float], ...]
    """The most probable tokens with their probabilities, in descending order."""


@dataclass(frozen=True)
class Trace:
    """A model, one input, and the output tokens."""

    model: Any
    inputs: tuple[Tensor, ...]
    """The arguments of the model's forward pass; a batch of one."""
    streams: Mapping[str, Stream]
    output_stream: str
    """The stream at whose positions the model makes predictions."""
    target: Stream
    """The target token at each of these positions."""
    answer: tuple[int, ...]
    """The output in the form that `Inspectable.trace` takes, so that it can be traced again."""
    pieces: Callable[[Sequence[int]], list[str]]
    """The texts of output tokens."""
    predicted: tuple[int, ...] | None = None
    """The positions of `target` that the model is used to predict, such as those of masked tokens; None: all."""

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """All attention layers of the model that run on this input."""
        return looks(self.model)

    @property
    def writes(self) -> bool:
        """Whether the model is autoregressive: the output at a position is the input at the next."""
        return isinstance(self.model, Autoregressive)

    @property
    def output(self) -> Stream:
        """The output; for a language model, which continues its input, the input and its continuation."""
        continues = self.writes and len(self.streams) == 1
        return self.streams[self.output_stream] if continues else self.target

    def outputs(self, token: int | None = None) -> tuple[int, ...]:
        """The positions of `target` that are predictions, or only that of a chosen token."""
        length = len(self.target.tokens)
        if token is None:
            return tuple(range(length)) if self.predicted is None else self.predicted
        if not 0 <= token < length:
            raise RegardError(f"token {token} is out of range; the output has {length} tokens, counted from 0")
        return (token,)

    def same_outputs(self, other: "Trace", positions: Sequence[int]) -> tuple[int, ...] | None:
        """The positions of the same output tokens in a trace of other inputs; None if they are not there."""
        moved = dict(zip(self.outputs(), other.outputs(), strict=False))
        mine, theirs = self.target.tokens, dict(enumerate(other.target.tokens))
        for found in (tuple(moved.get(i, i) for i in positions), tuple(positions)):
            if [mine[i] for i in positions] == [theirs.get(i) for i in found]:
                return found
        return None

    def look(self, path: str) -> Look:
        """The attention layer with this path."""
        for candidate in self.looks:
            if candidate.path == path:
                return candidate
        raise RegardError(f"no attention layer {path!r}; this model has {', '.join(repr(x.path) for x in self.looks)}")

    @torch.no_grad()
    def run(self, copies: int = 1) -> Tensor:
        """The logits at each output position; with several copies of the input, for each copy."""
        logits_BTV: Tensor = self.model(*(x.expand(copies, *x.shape[1:]) for x in self.inputs))
        return logits_BTV if self.target.tokens else logits_BTV[:, :0]  # some models predict no tokens

    def weights(
        self, patterns: str | Sequence[str], heads: Sequence[int] | None = None, rows: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The attention weights of each matching path, of shape (heads, queries, keys)."""
        with capture(self.model, patterns, heads, rows) as maps:
            self.run()
        return {path: maps[path][0].cpu() for path in maps}

    def log_probabilities(self, logits_BTV: Tensor) -> Tensor:
        """The log-probability of each target token, given logits."""
        target_BT1 = torch.tensor(self.target.tokens, device=logits_BTV.device).expand(logits_BTV.shape[:2])[..., None]
        return logits_BTV.log_softmax(-1).gather(2, target_BT1)[..., 0].cpu()

    def token_probabilities(self, logits_BTV: Tensor, count: int = 5) -> list[TokenProbability]:
        """For each target token, its probability and the `count` most probable tokens, given logits."""
        logs_TV = logits_BTV[0].log_softmax(-1).cpu()
        best = logs_TV.topk(min(count, logs_TV.size(1)), dim=1)
        result = []
        for logs_V, token, values, others in zip(logs_TV, self.target.tokens, *best, strict=True):
            pairs = tuple(zip(others.tolist(), values.exp().tolist(), strict=True))
            result.append(TokenProbability(float(logs_V[token].exp()), pairs))
        return result


@dataclass(frozen=True)
class PartialOutput:
    """An unfinished text during generation."""

    text: str
    seen: Stream
    """The tokens that its last token could attend to: the source, or the text before it."""


class Alternative(Protocol):
    """A possible output of a model."""

    @property
    def text(self) -> str:
        """The output as text."""
        ...

    @property
    def tokens(self) -> tuple[int, ...]:
        """The output as tokens."""
        ...

    @property
    def mean_log_probability(self) -> float:
        """The log-probability of the output per token."""
        ...


class Inspectable(Protocol):
    """A model that can be inspected, with what turns its inputs into tensors and its output into text."""

    @property
    def model(self) -> Any:
        """The model."""
        ...

    @property
    def accepts(self) -> Mapping[str, str]:
        """The medium of each input, by role."""
        ...

    def count(self, inputs: Mapping[str, Any]) -> int:
        """The number of tokens of the inputs, which are given by role."""
        ...

    def trace(self, inputs: Mapping[str, Any], target: str | Sequence[int] | None = None) -> Trace:
        """A trace of the model on its inputs and an output (default: the model's own)."""
        ...

    def alternatives(self, inputs: Mapping[str, Any], count: int) -> Sequence[Alternative]:
        """The model's `count` best outputs, best first; empty if it does not generate."""
        ...

    def generate(self, inputs: Mapping[str, Any]) -> Iterator[PartialOutput]:
        """The output during generation, longer by one token each time."""
        ...


Inputs = str | Mapping[str, Any]
"""The inputs of a model by role; a string, if it accepts only one input."""


def by_role(accepts: Mapping[str, str], inputs: Inputs) -> dict[str, Any]:
    """Inputs by role; raises `RegardError` unless they are exactly those that the model accepts."""
    known = ", ".join(f"{role!r} ({medium})" for role, medium in accepts.items())
    if not isinstance(inputs, Mapping):
        if len(accepts) != 1:
            raise RegardError(f"this model has several inputs: {known}; pass a mapping with all of them")
        return dict.fromkeys(accepts, inputs)
    wrong = [f"{role!r} is missing" for role in accepts if role not in inputs]
    wrong += [f"{role!r} is unknown" for role in inputs if role not in accepts]
    if wrong:
        raise RegardError(f"{', '.join(wrong)}; the inputs of this model are: {known}")
    return {role: inputs[role] for role in accepts}


def looks(model: nn.Module) -> tuple[Look, ...]:
    """All attention layers of a model in construction order; a shared layer appears once per depth at which it runs."""
    assert isinstance(model, Observable), f"{type(model).__name__} declares no `looks` and `parts`"
    cores = attention_cores(model)
    streams: dict[str, tuple[str, str]] = {}
    for pattern, pair in model.looks.items() if cores else ():
        streams |= dict.fromkeys(find(cores, pattern, "attention"), pair)
    unknown = cores.keys() - streams.keys()
    assert not unknown, f"`looks` declares no streams for {sorted(unknown)}"
    return tuple(Look(path, *streams[path], core.heads, core.scaled) for path, core in cores.items())


def mean(maps: Iterable[Tensor]) -> Tensor:
    """The mean over heads, then over attention layers with equal weight."""
    return torch.stack([weights_HTS.mean(0) for weights_HTS in maps]).mean(0)


def merged(weights_HTS: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    """Merges weights between tokens into weights between units: summed over keys, averaged over queries.

    Args:
        rows: the index of the unit (in a text, a word) that each query token belongs to; -1: none.
        columns: the same for the key tokens.
    """
    rows_TW, columns_SW = (_membership(units).to(weights_HTS) for units in (rows, columns))
    sums_HVW = rows_TW.mT @ weights_HTS @ columns_SW
    return sums_HVW / rows_TW.sum(0)[:, None]


def _membership(units: Sequence[int]) -> Tensor:
    indices = torch.tensor(units, dtype=torch.long)
    return indices[:, None] == torch.arange(max(units, default=-1) + 1)
