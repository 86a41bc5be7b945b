"""A model at work on one input: its streams of tokens, what it says, and what attends to what.

Whatever a model is made of, looking inside it goes through a `Trace`: a translator gives one of a sentence and its
translation, with the streams "source" and "target". Pictures, the explorer and the measures beside this file know
nothing of models; a new one is in all of them as soon as it says who looks at whom (`looks`).
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
    """What each token looks like."""
    medium: str
    """What the tokens are made from: a key of `regard.explain.media.MEDIA`."""
    layout: Any
    """What that medium needs in order to be drawn, such as words: a frozen dataclass."""


@dataclass(frozen=True)
class Look:
    """One attention of a model."""

    path: str
    asks: str
    """The stream whose tokens ask."""
    answers: str
    """The stream whose tokens are looked at."""
    heads: int
    scaled: bool
    """Its scores are dot products, which may be divided by √K."""


@dataclass(frozen=True)
class TokenProbability:
    """How sure a model was of a token, and what else it thought of."""

    probability: float
    others: tuple[tuple[int, float], ...]
    """The most probable tokens with their probabilities, best first."""


@dataclass(frozen=True)
class Trace:
    """A model, one input of it, and the tokens that it says."""

    model: Any
    inputs: tuple[Tensor, ...]
    """What the model is called with; a batch of one."""
    streams: Mapping[str, Stream]
    output_stream: str
    """The stream at whose positions something is said."""
    target: Stream
    """The token that the model is asked for at each of these positions."""
    answer: tuple[int, ...]
    """What is said, as `Inspectable.trace` takes it, to be read again."""
    pieces: Callable[[Sequence[int]], list[str]]
    """What tokens of the output look like."""

    @cached_property
    def looks(self) -> tuple[Look, ...]:
        """All attentions of the model that run on this input."""
        return looks(self.model)

    @property
    def writes(self) -> bool:
        """What is said at a position is read at the next, so that it stands in a stream."""
        return isinstance(self.model, Autoregressive)

    @property
    def output(self) -> Stream:
        """What is said; of a model that continues what it reads, with what it read."""
        continues = self.writes and len(self.streams) == 1
        return self.streams[self.output_stream] if continues else self.target

    def look(self, path: str) -> Look:
        """The attention of that path."""
        for candidate in self.looks:
            if candidate.path == path:
                return candidate
        raise RegardError(f"no attention is at {path!r}; this model has {', '.join(repr(x.path) for x in self.looks)}")

    @torch.no_grad()
    def run(self, copies: int = 1) -> Tensor:
        """Logits for each position of the output; with several copies of the input, for each of them."""
        logits_BTV: Tensor = self.model(*(x.expand(copies, *x.shape[1:]) for x in self.inputs))
        return logits_BTV if self.target.tokens else logits_BTV[:, :0]  # some models say nothing

    def weights(
        self, patterns: str | Sequence[str], heads: Sequence[int] | None = None, rows: Sequence[int] | None = None
    ) -> dict[str, Tensor]:
        """The attention weights of each path that matches, of shape (heads, queries, keys)."""
        with capture(self.model, patterns, heads, rows) as maps:
            self.run()
        return {path: maps[path][0].cpu() for path in maps}

    def log_probabilities(self, logits_BTV: Tensor) -> Tensor:
        """log p of each token said, given logits."""
        said_BT1 = torch.tensor(self.target.tokens, device=logits_BTV.device).expand(logits_BTV.shape[:2])[..., None]
        return logits_BTV.log_softmax(-1).gather(2, said_BT1)[..., 0].cpu()

    def token_probabilities(self, logits_BTV: Tensor, count: int = 5) -> list[TokenProbability]:
        """For each token said, how probable it was and what else was, given logits."""
        logs_TV = logits_BTV[0].log_softmax(-1).cpu()
        best = logs_TV.topk(min(count, logs_TV.size(1)), dim=1)
        result = []
        for logs_V, token, values, others in zip(logs_TV, self.target.tokens, *best, strict=True):
            pairs = tuple(zip(others.tolist(), values.exp().tolist(), strict=True))
            result.append(TokenProbability(float(logs_V[token].exp()), pairs))
        return result


@dataclass(frozen=True)
class PartialOutput:
    """A text that is being written, as far as it is."""

    text: str
    seen: Stream
    """The tokens that its last one could look at: of what is translated, or of the text before it."""


class Alternative(Protocol):
    """Something that a model may say."""

    @property
    def text(self) -> str:
        """As text."""
        ...

    @property
    def tokens(self) -> tuple[int, ...]:
        """As it was written."""
        ...

    @property
    def score(self) -> float:
        """How sure the model is of it."""
        ...


class Inspectable(Protocol):
    """What can be looked into: a model, with all that turns what it is given into tensors and its output into text."""

    @property
    def model(self) -> Any:
        """The model."""
        ...

    @property
    def accepts(self) -> Mapping[str, str]:
        """The roles of its inputs, and the medium of each."""
        ...

    def count(self, inputs: Mapping[str, Any]) -> int:
        """How many tokens the inputs, given by role, have."""
        ...

    def trace(self, inputs: Mapping[str, Any], target: str | Sequence[int] | None = None) -> Trace:
        """The model at work on its inputs and on what is said about them: its own words, unless others are given."""
        ...

    def alternatives(self, inputs: Mapping[str, Any], count: int) -> Sequence[Alternative]:
        """What the model would say, best first; nothing, if it is not one to say things."""
        ...

    def generate(self, inputs: Mapping[str, Any]) -> Iterator[PartialOutput]:
        """What the model says, longer with every token."""
        ...


Inputs = str | Mapping[str, Any]
"""What a model is given, by role; a string, if it accepts one input only."""


def by_role(accepts: Mapping[str, str], inputs: Inputs) -> dict[str, Any]:
    """Inputs by their roles; `RegardError` unless they are exactly those that the model accepts."""
    known = ", ".join(f"{role!r} ({medium})" for role, medium in accepts.items())
    if not isinstance(inputs, Mapping):
        if len(accepts) != 1:
            raise RegardError(f"this model accepts several inputs: {known}; give a mapping with all of them")
        return dict.fromkeys(accepts, inputs)
    wrong = [f"{role!r} is missing" for role in accepts if role not in inputs]
    wrong += [f"{role!r} is not known" for role in inputs if role not in accepts]
    if wrong:
        raise RegardError(f"{', '.join(wrong)}; the inputs of this model are: {known}")
    return {role: inputs[role] for role in accepts}


def looks(model: nn.Module) -> tuple[Look, ...]:
    """All attentions of a model, in the order in which it was built; one for each depth at which it runs."""
    assert isinstance(model, Observable), f"{type(model).__name__} declares no `looks` and `parts`"
    cores = attention_cores(model)
    streams: dict[str, tuple[str, str]] = {}
    for pattern, pair in model.looks.items() if cores else ():
        streams |= dict.fromkeys(find(cores, pattern, "attention"), pair)
    unknown = cores.keys() - streams.keys()
    assert not unknown, f"nobody says who asks and who answers in {sorted(unknown)}"
    return tuple(Look(path, *streams[path], core.heads, core.scaled) for path, core in cores.items())


def mean(maps: Iterable[Tensor]) -> Tensor:
    """The mean over the heads of some attentions, each of which counts alike."""
    return torch.stack([weights_HTS.mean(0) for weights_HTS in maps]).mean(0)


def merged(weights_HTS: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    """Weights between tokens as weights between units: summed over the tokens looked at, averaged over those that ask.

    Args:
        rows: the number of the unit (in a text, a word) that each asking token belongs to; -1: to none.
        columns: the same for the tokens looked at.
    """
    rows_TW, columns_SW = (_membership(units).to(weights_HTS) for units in (rows, columns))
    sums_HVW = rows_TW.mT @ weights_HTS @ columns_SW
    return sums_HVW / rows_TW.sum(0)[:, None]


def _membership(units: Sequence[int]) -> Tensor:
    numbers = torch.tensor(units, dtype=torch.long)
    return numbers[:, None] == torch.arange(max(units, default=-1) + 1)
