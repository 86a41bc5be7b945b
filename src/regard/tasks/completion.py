"""Completion: a text goes on, by chance or by search, all at once or token by token."""

import codecs
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from regard.data.gpt import TextTokenizer
from regard.decoding.beam import Beam
from regard.decoding.bounded import Bounded
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.lean import lean
from regard.decoding.sampling import Drawn, Sampling
from regard.decoding.sliding import Sliding
from regard.errors import RegardError
from regard.explain.reading import Grown, Reading, Stream
from regard.explain.view import Looked
from regard.models.interface import Autoregressive

Overflow = Literal["error", "slide"]
Why = Literal["end", "stop", "length"]
TOKENS = 200  # to write, unless another number is asked for
SPARE = 1024  # rows of a table, at most, that stand for no token, so that their number is a round one
BEAM = 4  # that searches for what is shown, when it is looked at
SHOWN = 20  # tokens of what a model goes on with, when it is looked at


@dataclass(frozen=True)
class Completion:
    """What a text goes on with, and how sure the model is of it."""

    text: str
    """Without the prompt, and without what stopped it."""
    tokens: tuple[int, ...]
    """All that was written, an end and what stopped it among them."""
    pieces: tuple[str, ...]
    """What each token looks like."""
    token_scores: tuple[float, ...]
    """The model's own log-probability of each token, given those before it, however it was chosen."""
    score: float
    """Log-probability a token, its end counted as one, or what another length penalty makes of it."""
    why: Why
    """It ended by itself, came to a stop string, or is as long as it was to be."""
    seed: int | None = None
    """Draws this text again, alone; None: it was not drawn."""


class Completer(Looked):
    """A model that goes on with texts, with its tokenizer."""

    def __init__(self, model: nn.Module, tokenizer: TextTokenizer) -> None:
        self.model: Any = model.eval()
        self.tokenizer = tokenizer
        self.device = next(model.parameters()).device
        config: Any = model.config
        if not 0 <= config.vocab_size - tokenizer.vocab_size < SPARE:
            raise RegardError(
                f"a tokenizer of {tokenizer.vocab_size:,} tokens does not go with a model of {config.vocab_size:,}; "
                f"give each model the tokenizer that it was trained with"
            )
        # where no token ends a text, its end has a number that no token has
        self._end = tokenizer.vocab_size if tokenizer.end is None else tokenizer.end

    def complete(
        self,
        prompt: str,
        *,
        tries: int = 1,
        tokens: int = TOKENS,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition: float = 1.0,
        stop: str | Sequence[str] = (),
        seed: int = 1,
        overflow: Overflow = "error",
    ) -> list[Completion]:
        """So many ways to go on with a text, drawn by their probability; same seed, same text.

        The arguments that are not named here are those of `Sampling`.

        Args:
            tokens: how many to write, at most.
            stop: as soon as this string, or one of these, is written, the text ends before it.
            overflow: what becomes of more tokens than the model can see at a time: an "error", or the model lets its
                view "slide", so that again and again the older half is forgotten.
        """
        read, stops = self._read(prompt), _stops(stop)
        how = Sampling(read[-1], self._end, tries, temperature, top_k, top_p, seed, min_p, repetition)
        (found,) = how.search(
            *self._asked(read, tokens, overflow), before=[read], stopped=partial(self._is_stopped, stops)
        )
        return [self._completion(hypothesis, stops, seed + i) for i, hypothesis in enumerate(found)]

    def stream(
        self,
        prompt: str,
        *,
        tokens: int = TOKENS,
        stop: str | Sequence[str] = (),
        overflow: Overflow = "error",
        **draws: Any,
    ) -> Iterator[str]:
        """The text of one try of `complete`, which has the same arguments, bit by bit as it is written.

        What is no whole character yet is held back until it is, and what may become a stop string until it cannot.
        """
        read, stops = self._read(prompt), _stops(stop)
        how = Sampling(read[-1], self._end, tries=1, **draws)
        characters = codecs.getincrementaldecoder("utf-8")("replace")
        raw, given = b"", 0
        for drawn in how.draw(
            *self._asked(read, tokens, overflow), before=[read], stopped=partial(self._is_stopped, stops)
        ):
            if drawn.token != self._end:
                raw = _cut(raw + self.tokenizer.raw([drawn.token]), stops)
                sure = max(given, len(raw) - _unsure(raw, stops))
                if text := characters.decode(raw[given:sure]):
                    yield text
                given = sure
        if text := characters.decode(raw[given:], final=True):
            yield text

    def best(
        self,
        prompt: str,
        *,
        beam: int = 4,
        tokens: int = TOKENS,
        n_best: int = 1,
        penalty: float = 1.0,
        overflow: Overflow = "error",
    ) -> list[Completion]:
        """The most probable ways to go on with a text that a beam finds, best first.

        Args:
            penalty: a text is worth its log-probability divided by (tokens)^penalty.
        """
        return self._best(self._read(prompt), tokens, overflow, beam, n_best, penalty)

    def _best(
        self,
        read: Sequence[int],
        tokens: int,
        overflow: Overflow = "error",
        beam: int = 1,
        n_best: int = 1,
        penalty: float = 1.0,
    ) -> list[Completion]:
        (found,) = Beam(read[-1], self._end, beam, n_best, penalty).search(*self._asked(read, tokens, overflow))
        # what is cut off has no end, which the search has counted
        return sorted((self._completion(each, penalty=penalty) for each in found), key=lambda each: -each.score)

    def _read(self, prompt: str) -> list[int]:
        """What the model reads of a text; of nothing, the token that stands where texts begin."""
        return self.tokenizer.encode([prompt])[0] or [self.tokenizer.begin]

    def _asked(
        self, read: Sequence[int], tokens: int, overflow: Overflow
    ) -> tuple[Autoregressive, tuple[Tensor, ...], Sequence[int]]:
        """What decoding is asked with: a model, what it has read but for the last token, and how far it goes."""
        if tokens < 1:
            raise RegardError(f"at least one token is to be written, not {tokens}")
        if overflow not in get_args(Overflow):
            raise RegardError(f"overflow is 'error' or 'slide', not {overflow!r}")
        context: int | None = self.model.limit
        model = lean(self.model, tokens if context is None else min(tokens, context))
        if context is not None and self._slides(read, tokens):
            if overflow == "error":
                raise RegardError(
                    f"{len(read):,} tokens to read and {tokens:,} to write do not fit into the context of {context:,}; "
                    f"ask for less, or choose overflow 'slide', by which the older half is forgotten when it is full"
                )
            model = Sliding(model, context)
        inputs_BT = torch.tensor([read[:-1]], dtype=torch.long, device=self.device)
        return Bounded(model, tokens, self.tokenizer.vocab_size, self._end), (inputs_BT,), [tokens]

    def slides(self, prompt: str, tokens: int) -> bool:
        """Whether so many tokens after a text are more than the model can see at a time."""
        return self._slides(self._read(prompt), tokens)

    def _slides(self, read: Sequence[int], tokens: int) -> bool:
        limit = self.model.limit
        return limit is not None and len(read) + tokens - 1 > limit  # the last one is not read any more

    def _is_stopped(self, stops: Sequence[bytes], written: Sequence[int]) -> bool:
        if not stops:
            return False
        raw = self.tokenizer.raw(written)
        return any(stop in raw for stop in stops)

    def _completion(
        self, found: Hypothesis, stops: Sequence[bytes] = (), seed: int | None = None, penalty: float = 1.0
    ) -> Completion:
        why: Why = "stop" if found.stopped else "length" if found.cut else "end"
        tokens = (*found.tokens, self._end) if why == "end" else found.tokens
        text = _cut(self.tokenizer.raw(found.tokens), stops).decode("utf-8", "replace")
        pieces, scores = tuple(self.tokenizer.pieces(tokens)), found.token_scores[: len(tokens)]
        score = sum(scores) / len(scores) ** penalty
        return Completion(text, tokens, pieces, scores, score, why, seed)

    # what looking inside asks for

    def count(self, text: str) -> int:
        """How many tokens the model reads of a text."""
        return len(self._read(text))

    def reading(self, text: str, said: str | Sequence[int] | None = None) -> Reading:
        """The model at work on a text and what it goes on with, which is its own unless given (or its tokens).

        At each place the next token is said, so that the last one is said but no longer read. After a text that is
        given, it is the most probable.
        """
        read = self._read(text)
        if said is None:
            said = self._best(read, self._room(read), beam=BEAM)[0].tokens
        elif isinstance(said, str):
            (given,) = self.tokenizer.encode([said])
            said = (*given, *self._best([*read, *given], 1)[0].tokens)
        tokens = [*read, *said[: self._most(read)]]
        inputs = (torch.tensor([tokens[:-1]], device=self.device),)
        streams, spoken = {"text": self._stream(tokens[:-1])}, self._stream(tokens[1:])
        return Reading(self.model, inputs, streams, "text", spoken, tuple(said), self.tokenizer.pieces)

    def alternatives(self, text: str, count: int) -> Sequence[Completion]:
        """The best ways to go on with a text, best first."""
        read = self._read(text)
        return self._best(read, self._room(read), beam=max(BEAM, count), n_best=count)

    def grow(self, text: str) -> Iterator[Grown]:
        """What the model goes on with, longer with every token, of which each is the most probable."""
        read = self._read(text)
        how = Sampling(read[-1], self._end, temperature=0.0)
        return self._grown(read, how.draw(*self._asked(read, self._room(read), "error")))

    def _grown(self, read: Sequence[int], draws: Iterator[Drawn]) -> Iterator[Grown]:
        tokens = list(read)
        for drawn in draws:
            if drawn.token != self._end:
                seen = tuple(self.tokenizer.pieces(tokens))
                tokens.append(drawn.token)
                yield Grown(self.tokenizer.raw(tokens[len(read) :]).decode("utf-8", "replace"), seen)

    def _room(self, read: Sequence[int]) -> int:
        """How many tokens to go on with when it is looked at."""
        return min(SHOWN, self._most(read))

    def _most(self, read: Sequence[int]) -> int:
        """How many tokens can be said after these; the last one is not read any more."""
        if self.model.limit is None:
            return sys.maxsize
        most: int = self.model.limit - len(read) + 1
        if most < 1:
            raise RegardError(
                f"a text of {len(read):,} tokens does not fit into the context of {self.model.limit:,}; shorten it"
            )
        return most

    def _stream(self, tokens: Sequence[int]) -> Stream:
        of = self.tokenizer
        shown = tuple(tokens), tuple(of.pieces(tokens)), tuple(of.words(tokens)), of.spelled(tokens)
        return Stream(*shown, text=of.decode([tokens])[0], ends=self._ends(tokens))

    def _ends(self, tokens: Sequence[int]) -> tuple[int | None, ...]:
        characters, ends, length = codecs.getincrementaldecoder("utf-8")("replace"), [], 0
        for token in tokens:
            length += len(characters.decode(self.tokenizer.raw([token])))
            ends.append(None if characters.getstate()[0] else length)
        return tuple(ends)


def _stops(texts: str | Sequence[str]) -> list[bytes]:
    texts = [texts] if isinstance(texts, str) else texts
    if "" in texts:
        raise RegardError("a stop string has at least one character, and one of those given has none")
    return [text.encode("utf-8", "replace") for text in texts]


def _cut(raw: bytes, stops: Sequence[bytes]) -> bytes:
    """What comes before the first stop string."""
    return raw[: min((raw.index(stop) for stop in stops if stop in raw), default=len(raw))]


def _unsure(raw: bytes, stops: Sequence[bytes]) -> int:
    """How many bytes at the end may be the beginning of a stop string."""
    return max((n for stop in stops for n in range(1, len(stop)) if raw.endswith(stop[:n])), default=0)
