"""Completion: a text goes on, by chance or by search, all at once or token by token."""

import codecs
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from regard.blocks.loss import linear_cross_entropy
from regard.codecs.gpt2 import LosslessTokenizer
from regard.codecs.interface import CodecExamples
from regard.data.batches import IGNORED
from regard.data.completion import FileSlice, FixedWindows, TextConfig, WindowBatch, Windows, encoded, spread
from regard.data.corpus import file_hash
from regard.decoding.beam import Beam
from regard.decoding.fast_decoder import fast_decoder
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.length_limit import LengthLimited
from regard.decoding.sampling import SampledToken, Sampling
from regard.decoding.sliding import Sliding
from regard.decoding.stops import before_stop, stop_bytes, unsure
from regard.errors import RegardError
from regard.evaluation.language import LanguageScores, perplexity, score
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Inputs, PartialOutput, Stream, Trace, by_role
from regard.explain.view import Viewable
from regard.folders import cache
from regard.models.interface import Autoregressive
from regard.tasks.completion_evaluation import EvaluatesText
from regard.tasks.pipeline import Pipeline
from regard.training.setup import Setup
from regard.training.task import SummedLoss, Task, listed, means

Overflow = Literal["error", "slide"]
FinishReason = Literal["end", "stop", "length"]
MAX_TOKENS = 200  # to write, unless another number is asked for
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
    finish_reason: FinishReason
    """It ended by itself, came to a stop string, or is as long as it was to be."""
    seed: int | None = None
    """Draws this text again, alone; None: it was not drawn."""


class Completer(EvaluatesText, Viewable, Pipeline):
    """A model that goes on with texts, with its tokenizer."""

    def __init__(self, model: nn.Module, tokenizer: LosslessTokenizer) -> None:
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
        samples: int = 1,
        tokens: int = MAX_TOKENS,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
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
        read, stops = self._read(prompt), stop_bytes(stop)
        how = Sampling(read[-1], self._end, samples, temperature, top_k, top_p, seed, min_p, repetition_penalty)
        (found,) = how.search(
            *self._asked(read, tokens, overflow), before=[read], stopped=partial(self._is_stopped, stops)
        )
        return [self._completion(hypothesis, stops, seed + i) for i, hypothesis in enumerate(found)]

    def stream(
        self,
        prompt: str,
        *,
        tokens: int = MAX_TOKENS,
        stop: str | Sequence[str] = (),
        overflow: Overflow = "error",
        **draws: Any,
    ) -> Iterator[str]:
        """The text of one try of `complete`, which has the same arguments, bit by bit as it is written.

        What is no whole character yet is held back until it is, and what may become a stop string until it cannot.
        """
        read, stops = self._read(prompt), stop_bytes(stop)
        how = Sampling(read[-1], self._end, samples=1, **draws)
        characters = codecs.getincrementaldecoder("utf-8")("replace")
        raw, given = b"", 0
        for drawn in how.draw(
            *self._asked(read, tokens, overflow), before=[read], stopped=partial(self._is_stopped, stops)
        ):
            if drawn.token != self._end:
                raw = before_stop(raw + self.tokenizer.raw([drawn.token]), stops)
                sure = max(given, len(raw) - unsure(raw, stops))
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
        tokens: int = MAX_TOKENS,
        n_best: int = 1,
        length_penalty: float = 1.0,
        overflow: Overflow = "error",
    ) -> list[Completion]:
        """The most probable ways to go on with a text that a beam finds, best first.

        Args:
            penalty: a text is worth its log-probability divided by (tokens)^penalty.
        """
        return self._best(self._read(prompt), tokens, overflow, beam, n_best, length_penalty)

    def _best(
        self,
        read: Sequence[int],
        tokens: int,
        overflow: Overflow = "error",
        beam: int = 1,
        n_best: int = 1,
        length_penalty: float = 1.0,
    ) -> list[Completion]:
        (found,) = Beam(read[-1], self._end, beam, n_best, length_penalty).search(*self._asked(read, tokens, overflow))
        # what is cut off has no end, which the search has counted
        return sorted(
            (self._completion(each, length_penalty=length_penalty) for each in found), key=lambda each: -each.score
        )

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
        model = fast_decoder(self.model, tokens if context is None else min(tokens, context))
        if context is not None and self._slides(read, tokens):
            if overflow == "error":
                raise RegardError(
                    f"{len(read):,} tokens to read and {tokens:,} to write do not fit into the context of {context:,}; "
                    f"ask for less, or choose overflow 'slide', by which the older half is forgotten when it is full"
                )
            model = Sliding(model, context)
        inputs_BT = torch.tensor([read[:-1]], dtype=torch.long, device=self.device)
        return LengthLimited(model, tokens, self.tokenizer.vocab_size, self._end), (inputs_BT,), [tokens]

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
        self, found: Hypothesis, stops: Sequence[bytes] = (), seed: int | None = None, length_penalty: float = 1.0
    ) -> Completion:
        finish_reason: FinishReason = "stop" if found.stopped else "length" if found.truncated else "end"
        tokens = (*found.tokens, self._end) if finish_reason == "end" else found.tokens
        text = before_stop(self.tokenizer.raw(found.tokens), stops).decode("utf-8", "replace")
        pieces, scores = tuple(self.tokenizer.pieces(tokens)), found.token_scores[: len(tokens)]
        score = sum(scores) / len(scores) ** length_penalty
        return Completion(text, tokens, pieces, scores, score, finish_reason, seed)

    @torch.no_grad()
    def measure(self, text: str) -> LanguageScores:
        """How well the model knows a text."""

        def summed(batch: WindowBatch) -> float:
            return float(loss(self.model, batch.to(self.device))[1])

        return score(summed, self.tokenizer, text, self.model.limit)

    # what looking inside asks for

    accepts: ClassVar[Mapping[str, str]] = {"text": "text"}

    def count(self, inputs: Inputs) -> int:
        """How many tokens the model reads of a text."""
        return len(self._given(inputs))

    def _given(self, inputs: Inputs) -> list[int]:
        return self._read(by_role(self.accepts, inputs)["text"])

    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model at work on a text and what it goes on with, which is its own unless given (or its tokens).

        At each place the next token is said, so that the last one is said but no longer read. After a text that is
        given, it is the most probable.
        """
        read = self._given(inputs)
        if target is None:
            target = self._best(read, self._room(read), beam=BEAM)[0].tokens
        elif isinstance(target, str):
            (given,) = self.tokenizer.encode([target])
            target = (*given, *self._best([*read, *given], 1)[0].tokens)
        tokens = [*read, *target[: self._most(read)]]
        called = (torch.tensor([tokens[:-1]], device=self.device),)
        streams, spoken = {"text": self._stream(tokens[:-1])}, self._stream(tokens[1:])
        return Trace(self.model, called, streams, "text", spoken, tuple(target), self.tokenizer.pieces)

    def alternatives(self, inputs: Inputs, count: int) -> Sequence[Completion]:
        """The best ways to go on with a text, best first."""
        read = self._given(inputs)
        return self._best(read, self._room(read), beam=max(BEAM, count), n_best=count)

    def generate(self, inputs: Inputs) -> Iterator[PartialOutput]:
        """What the model goes on with, longer with every token, of which each is the most probable."""
        read = self._given(inputs)
        how = Sampling(read[-1], self._end, temperature=0.0)
        return self._partial_outputs(read, how.draw(*self._asked(read, self._room(read), "error")))

    def _partial_outputs(self, read: Sequence[int], draws: Iterator[SampledToken]) -> Iterator[PartialOutput]:
        tokens = list(read)
        for drawn in draws:
            if drawn.token != self._end:
                seen = self._stream(tokens)
                tokens.append(drawn.token)
                yield PartialOutput(self.tokenizer.raw(tokens[len(read) :]).decode("utf-8", "replace"), seen)

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
        words, text = tuple(of.words(tokens)), of.decode([tokens])[0]
        layout = TextLayout(words, of.spelled(tokens), text=text, ends=self._ends(tokens))
        return text_stream(tokens, of.pieces(tokens), layout)

    def _ends(self, tokens: Sequence[int]) -> tuple[int | None, ...]:
        characters, ends, length = codecs.getincrementaldecoder("utf-8")("replace"), [], 0
        for token in tokens:
            length += len(characters.decode(self.tokenizer.raw([token])))
            ends.append(None if characters.getstate()[0] else length)
        return tuple(ends)


class CompletionTask(Task):
    """Running text; the loss of the next token; perplexity and bits per byte."""

    name = "completion"
    verbs = ("complete", "evaluate", "look", "explore")
    data = (TextConfig,)

    def __init__(self, setup: Setup) -> None:
        data = setup.data
        self.label_smoothing = setup.train.label_smoothing
        train, valid = data.parts()
        keys = [file_hash(*(part.path for part in parts)) for parts in (train, valid)]
        setup.claim(*keys)
        self.codecs = setup.codecs(text=CodecExamples(partial(_pieces, train), partial(_pieces, valid)))
        self.tokenizer = self.codecs["text"]
        texts = []
        for what, parts, key in zip(("training", "validation"), (train, valid), keys, strict=True):
            tokens = encoded(parts, key, self.tokenizer, cache())
            counts = {"characters": sum(part.end - part.begin for part in parts), "tokens": len(tokens)}
            setup.count(what, ", ".join(f"{count:,} {name}" for name, count in counts.items()), text=what, **counts)
            texts.append(tokens)
        self.max_length = data.max_length or getattr(setup.model, "context", None)
        if self.max_length is None:
            raise RegardError("this model can see any number of tokens; set how many a window has with data.max_length")
        windows = Windows(texts[0], self.max_length, setup.seed, "the text to train on")
        kept = spread(texts[1], self.max_length, source="the text to validate with")
        self.batches, self.valid = setup.batches(windows, kept)
        self.bytes_per_token = _bytes_per_token(kept, self.tokenizer)
        self.config = setup.fitted(**self.tokenizer.sizes())

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Completer:
        """A model that goes on with texts."""
        return Completer(model, codecs["text"])

    def units(self, batch: WindowBatch) -> dict[str, int]:
        """Tokens that are asked for."""
        return {"tokens": int((batch.next_BT != IGNORED).sum())}

    def loss(self, model: Any, batch: WindowBatch) -> dict[str, SummedLoss]:
        """Of each token, smoothed; told without smoothing."""
        smooth, plain = loss(model, batch, self.label_smoothing)
        return {"tokens": SummedLoss(smooth, {"loss": plain})}

    def validate(self, model: Any) -> dict[str, float]:
        """The loss on text that was kept, also as perplexity and in bits."""
        mean = means(self, model, self.valid.epoch(0))["loss"]
        bits = mean / math.log(2) / self.bytes_per_token
        return {"valid_loss": mean, "valid_perplexity": perplexity(mean), "valid_bits_per_byte": bits}

    def describe(self, values: Mapping[str, float]) -> str:
        """All of it."""
        return (
            f"valid loss {values['valid_loss']:.3f}  perplexity {values['valid_perplexity']:.1f}  "
            f"{values['valid_bits_per_byte']:.2f} bits per byte"
        )

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss of a token, perplexity, bits of a byte."""
        return listed(f"On windows of {self.max_length} tokens of text kept from training:", values)


def _bytes_per_token(windows: FixedWindows, tokenizer: LosslessTokenizer) -> float:
    """Of the tokens that are asked for."""
    next_BT = windows.fetch(np.arange(len(windows.begins))).next_BT
    return sum(len(tokenizer.raw(row)) for row in next_BT.tolist()) / next_BT.numel()


def _pieces(parts: Sequence[FileSlice]) -> Iterator[str]:
    return chain.from_iterable(part.pieces() for part in parts)


def loss(model: Any, batch: WindowBatch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss of a batch, summed over the tokens that are asked for; and the same without smoothing."""
    x_ND, next_N = model.hidden(*batch.inputs).flatten(0, 1), batch.next_BT.flatten()
    is_asked_N = next_N != IGNORED
    if not is_asked_N.all():
        x_ND, next_N = x_ND[is_asked_N], next_N[is_asked_N]
    weight_VD, bias_V = model.output_parameters()
    return linear_cross_entropy(x_ND, weight_VD, bias_V, next_N, label_smoothing)
