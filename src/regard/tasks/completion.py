"""Completion: a language model continues a text by sampling or beam search, at once or token by token."""

import codecs
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Unpack, get_args, overload

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.loss import ROWS, linear_cross_entropy
from regard.codecs.gpt2 import LosslessTokenizer
from regard.codecs.interface import CodecExamples
from regard.counts import counted
from regard.data.batches import IGNORED
from regard.data.completion import FileSlice, FixedWindows, TextConfig, WindowBatch, Windows, encoded, spread
from regard.data.corpus import file_hash
from regard.decoding.beam import Beam
from regard.decoding.fast_decoder import fast_decoder
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.length_limit import LengthLimited
from regard.decoding.sampling import SampledToken, Sampling
from regard.decoding.sliding import Sliding
from regard.decoding.stops import before_stop, partial_stop_length, stop_bytes
from regard.errors import RegardError
from regard.evaluation.language import LanguageScores, TokenLosses, perplexity, token_losses
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Inputs, PartialOutput, Stream, Trace, by_role
from regard.explain.view import Viewable
from regard.folders import cache
from regard.models.interface import Autoregressive
from regard.tasks.completion_evaluation import EvaluatesText
from regard.tasks.completion_types import (
    BeamOptions,
    Completion,
    FinishReason,
    Overflow,
    SamplingOptions,
    StreamOptions,
)
from regard.tasks.pipeline import Pipeline
from regard.tasks.texts import as_given, expect_options, expect_texts
from regard.training.setup import Setup
from regard.training.task import SummedLoss, Task, listed, means

MAX_TOKENS = 200  # default number of tokens to generate
MAX_UNUSED_ROWS = 1024  # maximum number of unused embedding rows, which round the size of the embedding table up
TRACE_BEAM = 4  # beam width for the continuation that is shown with a trace
TRACE_TOKENS = 20  # maximum number of tokens of the continuation that is shown with a trace


class Completer(EvaluatesText, Viewable, Pipeline):
    """A language model with its tokenizer, which continues texts."""

    def __init__(self, model: nn.Module, tokenizer: LosslessTokenizer) -> None:
        self.model: Any = model.eval()
        self.tokenizer = tokenizer
        self.device = next(model.parameters()).device
        config: Any = model.config
        if not 0 <= config.vocab_size - tokenizer.vocab_size < MAX_UNUSED_ROWS:
            raise RegardError(
                f"the tokenizer has {tokenizer.vocab_size:,} tokens, but the model has {config.vocab_size:,}; "
                f"use the tokenizer that the model was trained with"
            )
        # without an end token, use an id beyond the vocabulary
        self._end = tokenizer.vocab_size if tokenizer.end is None else tokenizer.end

    @overload
    def complete(self, prompts: str, **how: Unpack[SamplingOptions]) -> list[Completion]: ...  # type: ignore[overload-overlap]
    @overload
    def complete(self, prompts: Sequence[str], **how: Unpack[SamplingOptions]) -> list[list[Completion]]: ...

    def complete(self, prompts: str | Sequence[str], **how: Unpack[SamplingOptions]) -> Any:
        """For each text, `samples` continuations sampled from the model; the same seed gives the same text."""
        expect_options(how, SamplingOptions)
        return as_given(prompts, [self._sample(prompt, **how) for prompt in expect_texts(prompts, "prompts")])

    def _sample(
        self,
        prompt: str,
        *,
        samples: int = 1,
        tokens: int = MAX_TOKENS,
        stop: str | Sequence[str] = (),
        seed: int = 1,
        overflow: Overflow = "error",
        **options: Any,
    ) -> list[Completion]:
        prompt_tokens, stops = self._prompt_tokens(prompt), stop_bytes(stop)
        how = Sampling(prompt_tokens[-1], self._end, samples, seed=seed, **options)
        (found,) = how.search(
            *self._decoding_arguments(prompt_tokens, tokens, overflow),
            before=[prompt_tokens],
            stopped=partial(self._is_stopped, stops),
        )
        return [self._completion(hypothesis, stops, seed + i) for i, hypothesis in enumerate(found)]

    def stream(self, prompt: str, **how: Unpack[StreamOptions]) -> Iterator[str]:
        """The text of one sample of `complete`, in parts as it is generated; the arguments are the same.

        Incomplete characters are held back until they are complete, and a possible stop string until it is ruled out.
        """
        if not isinstance(prompt, str):
            raise RegardError(f"a single prompt, a string, is streamed; got {prompt!r}")
        expect_options(how, StreamOptions)
        return self._stream_text(prompt, **how)

    def _stream_text(
        self,
        prompt: str,
        *,
        tokens: int = MAX_TOKENS,
        stop: str | Sequence[str] = (),
        overflow: Overflow = "error",
        **options: Any,
    ) -> Iterator[str]:
        prompt_tokens, stops = self._prompt_tokens(prompt), stop_bytes(stop)
        how = Sampling(prompt_tokens[-1], self._end, samples=1, **options)
        characters = codecs.getincrementaldecoder("utf-8")("replace")
        raw, yielded = b"", 0
        for sampled in how.draw(
            *self._decoding_arguments(prompt_tokens, tokens, overflow),
            before=[prompt_tokens],
            stopped=partial(self._is_stopped, stops),
        ):
            if sampled.token != self._end:
                raw = before_stop(raw + self.tokenizer.raw([sampled.token]), stops)
                safe = max(yielded, len(raw) - partial_stop_length(raw, stops))
                if text := characters.decode(raw[yielded:safe]):
                    yield text
                yielded = safe
        if text := characters.decode(raw[yielded:], final=True):
            yield text

    @overload
    def best(self, prompts: str, **how: Unpack[BeamOptions]) -> list[Completion]: ...  # type: ignore[overload-overlap]
    @overload
    def best(self, prompts: Sequence[str], **how: Unpack[BeamOptions]) -> list[list[Completion]]: ...

    def best(self, prompts: str | Sequence[str], **how: Unpack[BeamOptions]) -> Any:
        """For each text, its `n_best` most probable continuations by beam search, best first."""
        expect_options(how, BeamOptions)
        options: dict[str, Any] = {"beam": 4, **how}
        return as_given(
            prompts,
            [self._best(self._prompt_tokens(prompt), **options) for prompt in expect_texts(prompts, "prompts")],
        )

    def _best(
        self,
        prompt_tokens: Sequence[int],
        tokens: int = MAX_TOKENS,
        overflow: Overflow = "error",
        beam: int = 1,
        n_best: int = 1,
        length_penalty: float = 1.0,
    ) -> list[Completion]:
        (found,) = Beam(prompt_tokens[-1], self._end, beam, n_best, length_penalty).search(
            *self._decoding_arguments(prompt_tokens, tokens, overflow)
        )
        # beam search counts an end token even for a truncated text, so the order may change here
        return sorted(
            map(self._completion, found),
            key=lambda each: each.log_probability / len(each.tokens) ** length_penalty,
            reverse=True,
        )

    def _prompt_tokens(self, prompt: str) -> list[int]:
        """The tokens of a prompt; an empty prompt consists of the begin token."""
        return self.tokenizer.encode([prompt])[0] or [self.tokenizer.begin]

    def _decoding_arguments(
        self, prompt_tokens: Sequence[int], tokens: int, overflow: Overflow
    ) -> tuple[Autoregressive, tuple[Tensor, ...], Sequence[int]]:
        """The arguments of decoding: the model, the prompt without its last token, and the maximum length."""
        if tokens < 1:
            raise RegardError(f"the number of tokens to generate must be at least 1, got {tokens}")
        if overflow not in get_args(Overflow):
            raise RegardError(f"overflow must be 'error' or 'slide', got {overflow!r}")
        context: int | None = self.model.limit
        model = fast_decoder(self.model, tokens if context is None else min(tokens, context))
        if context is not None and self._slides(prompt_tokens, tokens):
            if overflow == "error":
                raise RegardError(
                    f"{counted(len(prompt_tokens), 'prompt token')} and {counted(tokens, 'token')} to generate "
                    f"exceed the context of "
                    f"{context:,}; generate fewer tokens, or set overflow to 'slide', "
                    f"which drops the older half whenever it is full"
                )
            model = Sliding(model, context)
        inputs_BT = torch.tensor([prompt_tokens[:-1]], dtype=torch.long, device=self.device)
        return LengthLimited(model, tokens, self.tokenizer.vocab_size, self._end), (inputs_BT,), [tokens]

    def slides(self, prompt: str, tokens: int) -> bool:
        """Whether a prompt and `tokens` generated tokens exceed the context of the model."""
        return self._slides(self._prompt_tokens(prompt), tokens)

    def _slides(self, prompt_tokens: Sequence[int], tokens: int) -> bool:
        limit = self.model.limit
        return limit is not None and len(prompt_tokens) + tokens - 1 > limit  # the last generated token is not read

    def _is_stopped(self, stops: Sequence[bytes], written: Sequence[int]) -> bool:
        if not stops:
            return False
        raw = self.tokenizer.raw(written)
        return any(stop in raw for stop in stops)

    def _completion(self, found: Hypothesis, stops: Sequence[bytes] = (), seed: int | None = None) -> Completion:
        finish_reason: FinishReason = "stop" if found.stopped else "length" if found.truncated else "end"
        tokens = (*found.tokens, self._end) if finish_reason == "end" else found.tokens
        text = before_stop(self.tokenizer.raw(found.tokens), stops).decode("utf-8", "replace")
        pieces, logs = tuple(self.tokenizer.pieces(tokens)), found.token_scores[: len(tokens)]
        return Completion(text, tokens, pieces, logs, finish_reason, seed)

    def measure(self, text: str) -> LanguageScores:
        """Loss, perplexity and bits per byte of a text."""
        return self.losses(text).scores()

    @torch.no_grad()
    def losses(self, text: str) -> TokenLosses:
        """The loss of each token of a text."""
        return token_losses(self._losses, self.tokenizer, text, self.model.limit)

    def _losses(self, batch: WindowBatch) -> Tensor:
        """The loss of each target of a batch."""
        batch = batch.to(self.device)
        is_target_BT = batch.next_BT != IGNORED
        x_ND, next_N = self.model.hidden(*batch.inputs)[is_target_BT], batch.next_BT[is_target_BT]
        parts = zip(x_ND.split(ROWS), next_N.split(ROWS), strict=True)
        weight_VD, bias_V = self.model.output_parameters()
        return torch.cat([F.cross_entropy(F.linear(x, weight_VD, bias_V), y, reduction="none") for x, y in parts])

    # the interface for traces

    accepts: ClassVar[Mapping[str, str]] = {"text": "text"}

    def count(self, inputs: Inputs) -> int:
        """The number of tokens in a text."""
        return len(self._input_tokens(inputs))

    def _input_tokens(self, inputs: Inputs) -> list[int]:
        return self._prompt_tokens(by_role(self.accepts, inputs)["text"])

    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to a text and its continuation, given as text or tokens; default: the model's own.

        Each position predicts the next token, so the last token is predicted but not read. After a continuation given
        as text, the last token is the most probable one.
        """
        prompt_tokens = self._input_tokens(inputs)
        if target is None:
            target = self._best(prompt_tokens, self._trace_length(prompt_tokens), beam=TRACE_BEAM)[0].tokens
        elif isinstance(target, str):
            (given,) = self.tokenizer.encode([target])
            target = (*given, *self._best([*prompt_tokens, *given], 1)[0].tokens)
        tokens = [*prompt_tokens, *target[: self._max_new_tokens(prompt_tokens)]]
        arguments = (torch.tensor([tokens[:-1]], device=self.device),)
        streams, predicted = {"text": self._stream(tokens[:-1])}, self._stream(tokens[1:])
        continuation = tuple(range(len(prompt_tokens) - 1, len(tokens) - 1))
        return Trace(
            self.model, arguments, streams, "text", predicted, tuple(target), self.tokenizer.pieces, continuation
        )

    def alternatives(self, inputs: Inputs, count: int) -> Sequence[Completion]:
        """The best continuations of a text, best first."""
        prompt_tokens = self._input_tokens(inputs)
        return self._best(prompt_tokens, self._trace_length(prompt_tokens), beam=max(TRACE_BEAM, count), n_best=count)

    def generate(self, inputs: Inputs) -> Iterator[PartialOutput]:
        """The greedy continuation of a text after each token."""
        prompt_tokens = self._input_tokens(inputs)
        how = Sampling(prompt_tokens[-1], self._end, temperature=0.0)
        return self._partial_outputs(
            prompt_tokens,
            how.draw(*self._decoding_arguments(prompt_tokens, self._trace_length(prompt_tokens), "error")),
        )

    def _partial_outputs(
        self, prompt_tokens: Sequence[int], samples: Iterator[SampledToken]
    ) -> Iterator[PartialOutput]:
        tokens = list(prompt_tokens)
        for sampled in samples:
            if sampled.token != self._end:
                seen = self._stream(tokens)
                tokens.append(sampled.token)
                yield PartialOutput(self.tokenizer.raw(tokens[len(prompt_tokens) :]).decode("utf-8", "replace"), seen)

    def _trace_length(self, prompt_tokens: Sequence[int]) -> int:
        """The number of tokens to generate for a trace."""
        return min(TRACE_TOKENS, self._max_new_tokens(prompt_tokens))

    def _max_new_tokens(self, prompt_tokens: Sequence[int]) -> int:
        """The maximum number of tokens that fit after the prompt; the last one is not read."""
        if self.model.limit is None:
            return sys.maxsize
        count: int = self.model.limit - len(prompt_tokens) + 1
        if count < 1:
            raise RegardError(
                f"a text of {len(prompt_tokens):,} tokens exceeds the context of {self.model.limit:,}; shorten it"
            )
        return count

    def _stream(self, tokens: Sequence[int]) -> Stream:
        tokenizer = self.tokenizer
        words, text = tuple(tokenizer.words(tokens)), tokenizer.decode([tokens])[0]
        layout = TextLayout(words, tokenizer.spelled(tokens), text=text, ends=self._ends(tokens))
        return text_stream(tokens, tokenizer.pieces(tokens), layout)

    def _ends(self, tokens: Sequence[int]) -> tuple[int | None, ...]:
        characters, ends, length = codecs.getincrementaldecoder("utf-8")("replace"), [], 0
        for token in tokens:
            length += len(characters.decode(self.tokenizer.raw([token])))
            ends.append(None if characters.getstate()[0] else length)
        return tuple(ends)


class CompletionTask(Task):
    """Plain text; the loss of the next token; perplexity and bits per byte."""

    name = "completion"
    verbs = ("complete", "evaluate", "compare", "look", "explore")
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
            tokens = encoded(parts, key, self.tokenizer, cache(), setup.say)
            counts = {"characters": sum(part.end - part.begin for part in parts), "tokens": len(tokens)}
            setup.count(what, ", ".join(f"{count:,} {name}" for name, count in counts.items()), text=what, **counts)
            texts.append(tokens)
        if data.valid is None:
            setup.say("validation: the last tenth of the text, split from training; give another text with data.valid")
        self.max_length = data.max_length or getattr(setup.model, "context", None)
        if self.max_length is None:
            raise RegardError("this model has no maximum context; set data.max_length, the window length in tokens")
        windows = Windows(texts[0], self.max_length, setup.seed, "the training text")
        kept = spread(texts[1], self.max_length, source="the validation text")
        self.batches, self.valid = setup.batches(windows, kept)
        self.bytes_per_token = _bytes_per_token(kept, self.tokenizer)
        self.config = setup.fitted(**self.tokenizer.sizes())

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Completer:
        """A pipeline that continues texts."""
        return Completer(model, codecs["text"])

    def units(self, batch: WindowBatch) -> dict[str, int]:
        """Target tokens."""
        return {"tokens": int((batch.next_BT != IGNORED).sum())}

    def loss(self, model: Any, batch: WindowBatch) -> dict[str, SummedLoss]:
        """The loss of each token, with label smoothing; logged without it."""
        smooth, plain = loss(model, batch, self.label_smoothing)
        return {"tokens": SummedLoss(smooth, {"loss": plain})}

    def validate(self, model: Any) -> dict[str, float]:
        """The loss on the validation text, with perplexity and bits per byte."""
        mean = means(self, model, self.valid.epoch(0))["loss"]
        bits = mean / math.log(2) / self.bytes_per_token
        return {"valid_loss": mean, "valid_perplexity": perplexity(mean), "valid_bits_per_byte": bits}

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss, perplexity and bits per byte."""
        return (
            f"valid loss {values['valid_loss']:.3f}  perplexity {values['valid_perplexity']:.1f}  "
            f"{values['valid_bits_per_byte']:.2f} bits per byte"
        )

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss per token, perplexity, bits per byte."""
        return listed(f"On windows of {self.max_length} tokens of held-out text:", values)


def _bytes_per_token(windows: FixedWindows, tokenizer: LosslessTokenizer) -> float:
    """The mean number of bytes in a target token."""
    next_BT = windows.fetch(np.arange(len(windows.begins))).next_BT
    return sum(len(tokenizer.raw(row)) for row in next_BT.tolist()) / next_BT.numel()


def _pieces(parts: Sequence[FileSlice]) -> Iterator[str]:
    return chain.from_iterable(part.pieces() for part in parts)


def loss(model: Any, batch: WindowBatch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss of a batch, summed over its target tokens; with and without label smoothing."""
    x_ND, next_N = model.hidden(*batch.inputs).flatten(0, 1), batch.next_BT.flatten()
    is_target_N = next_N != IGNORED
    if not is_target_N.all():
        x_ND, next_N = x_ND[is_target_N], next_N[is_target_N]
    weight_VD, bias_V = model.output_parameters()
    return linear_cross_entropy(x_ND, weight_VD, bias_V, next_N, label_smoothing)
