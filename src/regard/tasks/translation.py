"""Translation: training on sentence pairs, and a translator from text to text."""

import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Protocol, Unpack, overload

import torch
from torch import Tensor, nn

from regard.blocks.loss import linear_cross_entropy
from regard.codecs.interface import CodecExamples
from regard.codecs.subword import BEGIN, END, PAD_ID, SubwordTokenizer
from regard.counts import counted
from regard.data.batches import BATCH_TOKENS, given, in_batches
from regard.data.corpus import Corpus, chunks, encoded
from regard.data.parallel import PairBatch, Pairs, pair_batch, source_batch
from regard.data.sources import DatesConfig, PairSource, ParallelConfig
from regard.decoding.beam import Beam
from regard.decoding.fast_decoder import ROOM, fast_decoder
from regard.decoding.finite import finite
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import Sampling
from regard.errors import RegardError
from regard.evaluation import bleu
from regard.explain.alignment import Alignment, align
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Inputs, PartialOutput, Stream, Trace, by_role
from regard.explain.view import Viewable
from regard.folders import cache
from regard.models.interface import Autoregressive
from regard.tasks.pipeline import Pipeline
from regard.tasks.texts import as_given, expect_options, expect_texts
from regard.tasks.translation_evaluation import EvaluatesTranslations
from regard.tasks.translation_types import SamplingOptions, SearchOptions, Translation, TranslationOptions
from regard.training.setup import Setup
from regard.training.task import Curve, SummedLoss, Task, listed, means

BLEU_SENTENCES = 200  # sentences that validation translates


class EncoderDecoder(Autoregressive, Protocol):
    """The model that translation needs."""

    def hidden(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """A vector for each target token, from which the next one is predicted."""
        ...

    def output_parameters(self) -> tuple[Tensor, Tensor | None]:
        """The weight matrix and the optional bias that map such a vector to logits."""
        ...

    @property
    def limit(self) -> int | None:
        """The maximum number of tokens in a sequence; None if there is none."""
        ...


def loss(model: EncoderDecoder, batch: PairBatch, label_smoothing: float = 0.0) -> tuple[Tensor, Tensor, int]:
    """The loss of a batch, summed over its target tokens; the same without smoothing; and the number of tokens."""
    is_real_BT = batch.next_BT != PAD_ID
    x_ND = model.hidden(*batch.inputs)[is_real_BT]
    smooth, plain = linear_cross_entropy(x_ND, *model.output_parameters(), batch.next_BT[is_real_BT], label_smoothing)
    return smooth, plain, x_ND.size(0)


class Translator(EvaluatesTranslations, Viewable, Pipeline):
    """A translation model with its tokenizers."""

    def __init__(self, model: nn.Module, source: SubwordTokenizer, target: SubwordTokenizer) -> None:
        self.model: Any = model.eval()
        self.source, self.target = source, target
        self.device = next(model.parameters()).device

    @overload
    def translate(self, texts: str, **how: Unpack[SearchOptions]) -> list[Translation]: ...  # type: ignore[overload-overlap]
    @overload
    def translate(self, texts: Sequence[str], **how: Unpack[SearchOptions]) -> list[list[Translation]]: ...

    def translate(self, texts: str | Sequence[str], **how: Unpack[SearchOptions]) -> Any:
        """For each text its `n_best` translations, best first. Texts of similar length are batched together."""
        expect_options(how, SearchOptions)
        beam, n_best = how.get("beam", 4), how.get("n_best", 1)
        search = Beam(BEGIN, END, beam, n_best, how.get("length_penalty", 1.0))
        return self._decode(search, n_best, texts, how, how.get("batch_tokens", 8192) // beam)

    @overload
    def sample(self, texts: str, **how: Unpack[SamplingOptions]) -> list[Translation]: ...  # type: ignore[overload-overlap]
    @overload
    def sample(self, texts: Sequence[str], **how: Unpack[SamplingOptions]) -> list[list[Translation]]: ...

    def sample(self, texts: str | Sequence[str], **how: Unpack[SamplingOptions]) -> Any:
        """For each text, `samples` translations sampled from the model; the same seed gives the same words."""
        expect_options(how, SamplingOptions)
        samples = how.get("samples", 1)
        sampling = Sampling(
            BEGIN,
            END,
            samples,
            how.get("temperature", 1.0),
            how.get("top_k"),
            how.get("top_p", 1.0),
            how.get("seed", 1),
        )
        return self._decode(sampling, samples, texts, how, how.get("batch_tokens", 8192) // samples)

    def _decode(
        self,
        how: Beam | Sampling,
        count: int,
        texts: str | Sequence[str],
        common: "TranslationOptions",
        batch_tokens: int,
    ) -> Any:
        prefixes, align, scores = common.get("prefixes", ()), common.get("align", False), common.get("scores", True)
        some = expect_texts(texts)
        return as_given(
            texts, self._decode_texts(how, count, some, expect_texts(prefixes), align, batch_tokens, scores)
        )

    def _decode_texts(
        self,
        how: Beam | Sampling,
        count: int,
        texts: Sequence[str],
        prefixes: Sequence[str],
        align: bool,
        batch_tokens: int,
        scores: bool,
    ) -> list[list[Translation]]:
        if prefixes and len(prefixes) != len(texts):
            raise RegardError(
                f"got {counted(len(texts), 'text')} and {counted(len(prefixes), 'prefix', 'prefixes')}; "
                f"give one prefix for each text"
            )
        sentences, beginnings = self.source.encode(texts), self.target.encode(prefixes)
        # the translation of an empty text is empty
        empty = Translation("", 0.0, alignment=Alignment((), (), ()) if align else None)
        results: list[list[Translation]] = [[empty] * count for _ in texts]
        for indices in in_batches([len(sentence) for sentence in sentences], batch_tokens):
            chosen = [self._truncated(sentences[i]) for i in indices]
            starts = [self._truncated(beginnings[i]) for i in indices] if prefixes else [()] * len(indices)
            # a limit in case the model never predicts the end token: twice the source length is ample
            max_length = [
                min(2 * len(s) + 20 + len(start), self._room) for s, start in zip(chosen, starts, strict=True)
            ]
            found = self._search(how, chosen, max_length, starts, scores)
            for i, source, hypotheses in zip(indices, chosen, found, strict=True):
                is_truncated = len(source) < len(sentences[i])
                results[i] = [self._translation(source, hypothesis, align, is_truncated) for hypothesis in hypotheses]
        return results

    def _search(
        self,
        how: Beam | Sampling,
        sources: Sequence[Sequence[int]],
        max_length: Sequence[int],
        starts: Sequence[Sequence[int]],
        scores: bool,  # noqa: ARG002, the search always computes them
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source. Other engines override this method."""
        room = max(map(len, sources)) + ROOM  # most translations are about as long as their sources
        return how.search(fast_decoder(self.model, room), self._inputs(sources), max_length, starts)

    def _inputs(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, ...]:
        """The arguments of `start`."""
        return tuple(x.to(self.device) for x in given(*source_batch(sources)))

    @property
    def _room(self) -> int:
        """The maximum number of tokens in a sentence, not counting the begin or end token."""
        return sys.maxsize if self.model.limit is None else self.model.limit - 1

    def _truncated(self, tokens: Sequence[int]) -> Sequence[int]:
        return tokens[: self._room]

    def _translation(
        self, source: Sequence[int], hypothesis: Hypothesis, aligned: bool, source_is_truncated: bool
    ) -> Translation:
        tokens = hypothesis.tokens
        numbers = self.target.words(tokens)
        logs, since = [0.0] * (max(numbers, default=-1) + 1), 0.0
        for number, log in zip((*numbers, -1), hypothesis.token_scores, strict=False):
            since += log  # a space belongs to the word after it
            if number >= 0:
                logs[number] += since
                since = 0.0
        (text,) = self.target.decode([tokens])
        alignment = align(self._trace(source, tokens)) if aligned else None
        truncated = hypothesis.truncated or source_is_truncated
        of_words = tuple(logs) if hypothesis.token_scores else ()
        end = since if hypothesis.token_scores else None
        return Translation(text, hypothesis.log_probability, truncated, _words(text), of_words, end, alignment, tokens)

    @overload
    def align(self, sources: str, targets: str) -> Alignment: ...  # type: ignore[overload-overlap]
    @overload
    def align(self, sources: Sequence[str], targets: Sequence[str]) -> list[Alignment]: ...

    def align(self, sources: str | Sequence[str], targets: str | Sequence[str]) -> Any:
        """The source words that each word of a given translation attends to."""
        encoded = self._encoded(sources, targets)
        return as_given(sources, [align(self._trace(source, target)) for source, target in encoded])

    def _encoded(
        self, sources: str | Sequence[str], targets: str | Sequence[str]
    ) -> list[tuple[Sequence[int], Sequence[int]]]:
        source_texts, target_texts = expect_texts(sources, "sources"), expect_texts(targets, "targets")
        if len(source_texts) != len(target_texts):
            raise RegardError(
                f"got {counted(len(source_texts), 'source')} and {counted(len(target_texts), 'target')}; "
                f"give one target for each source"
            )
        return list(zip(self.source.encode(source_texts), self.target.encode(target_texts), strict=True))

    accepts: ClassVar[Mapping[str, str]] = {"source": "text"}

    def count(self, inputs: Inputs) -> int:
        """The number of tokens in a text."""
        return len(self.source.encode([self._text(inputs)])[0])

    def _text(self, inputs: Inputs) -> str:
        text: str = by_role(self.accepts, inputs)["source"]
        if not text.strip():
            raise RegardError("the text is empty; give at least one word")
        return text

    def alternatives(self, inputs: Inputs, count: int) -> list[Translation]:
        """The best translations of a text, best first."""
        return self.translate([self._text(inputs)], n_best=count)[0]

    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to a text and a translation, given as text or tokens; default: the model's own."""
        text = self._text(inputs)
        (source,) = self.source.encode([text])
        if target is None:
            target = self.translate([text])[0][0].tokens
        elif isinstance(target, str) and not target.strip():
            raise RegardError("the target is empty; give at least one word, or leave it out to explain the translation")
        target = self.target.encode([target])[0] if isinstance(target, str) else target
        return self._trace(source, target)

    @torch.no_grad()
    def generate(self, inputs: Inputs) -> Iterator[PartialOutput]:
        """The greedy translation of a text after each token."""
        source = self._truncated(self.source.encode([self._text(inputs)])[0])
        state, tokens = self.model.start(*self._inputs([source])), [BEGIN]
        seen = _stream(self.source, [*source, END])
        for _ in range(min(2 * len(source) + 20, self._room)):
            logits_BV, state = self.model.step(torch.tensor(tokens[-1:], device=self.device), state)
            tokens.append(int(logits_BV.argmax()))
            if tokens[-1] == END:
                break
            yield PartialOutput(self.target.decode([tokens])[0], seen)

    def _trace(self, source: Sequence[int], target: Sequence[int]) -> Trace:
        read, written, predicted = [*source, END], [BEGIN, *target], [*target, END]
        streams = {"source": _stream(self.source, read), "target": _stream(self.target, written)}
        inputs = tuple(torch.tensor([tokens], device=self.device) for tokens in (read, written))
        predicted_stream = _stream(self.target, predicted)
        return Trace(self.model, inputs, streams, "target", predicted_stream, tuple(target), self.target.pieces)

    @overload
    def score(self, sources: str, targets: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def score(
        self, sources: Sequence[str], targets: Sequence[str], batch_tokens: int = BATCH_TOKENS
    ) -> list[float]: ...

    def score(
        self, sources: str | Sequence[str], targets: str | Sequence[str], batch_tokens: int = BATCH_TOKENS
    ) -> Any:
        """The log-probability of each target, given its source."""
        return as_given(sources, self._score(self._encoded(sources, targets), batch_tokens))

    @torch.no_grad()
    def _score(self, encoded: Sequence[tuple[Sequence[int], Sequence[int]]], batch_tokens: int) -> list[float]:
        """The log-probability of each pair of tokens. Other engines override this method."""
        scores = [0.0] * len(encoded)
        for indices in in_batches([max(map(len, pair)) for pair in encoded], batch_tokens, with_empty=True):
            batch = pair_batch([encoded[i][0] for i in indices], [encoded[i][1] for i in indices]).to(self.device)
            logits_BTV = self.model(*batch.inputs)
            logs_BT = logits_BTV.log_softmax(-1).gather(2, batch.next_BT[:, :, None])[:, :, 0]
            sums_B = logs_BT.masked_fill(batch.next_BT == PAD_ID, 0.0).sum(1)
            for i, score in zip(indices, finite(sums_B).tolist(), strict=True):
                scores[i] = score
        return scores


class TranslationTask(Task):
    """Sentence pairs; the loss of the next token; BLEU."""

    name = "translation"
    verbs = ("translate", "score", "compare", "evaluate", "look", "explore")
    data = (ParallelConfig, DatesConfig)
    curves = (Curve(score="bleu", label="BLEU (greedy)"),)

    def __init__(self, setup: Setup) -> None:
        data = setup.data
        self.max_length, self.label_smoothing = data.max_length, setup.train.label_smoothing
        parts, valid_parts = data.parts(), data.valid_parts()
        setup.claim(*(part.key for part in (*parts, *valid_parts)))

        def side(number: int) -> CodecExamples:
            return CodecExamples(lambda: (pair[number] for part in parts for pair in part.read()))

        self.codecs = setup.codecs(source=side(0), target=side(1))
        self.source, self.target = self.codecs["source"], self.codecs["target"]
        corpora = [(self._corpus(part, "training", setup), part.weight) for part in parts]
        valid = [(self._corpus(part, "validation", setup), 1.0) for part in valid_parts]
        if not any(len(corpus) for corpus, _ in valid):
            raise RegardError("there are no sentence pairs for validation; give some with data.valid")
        if isinstance(data, ParallelConfig) and not data.valid:
            excluded = data.excluded()
            also = f", and {excluded:,} with the same source excluded from training" if excluded else ""
            count = counted(sum(len(corpus) for corpus, _ in valid), "pair")
            text = f"{count} split from training{also}; give others with data.valid"
            setup.count("validation", text, pairs="split", same_source=excluded)
        self.batches, self.valid = setup.batches(Pairs(corpora, setup.seed), Pairs(valid, seed=0))
        read = chain.from_iterable(part.read() for part in valid_parts)
        kept = chunks(read, self.source, self.target, self.max_length)
        self.valid_pairs = list(islice(chain.from_iterable(chunk.texts for chunk in kept), BLEU_SENTENCES))
        # a tokenizer may have fewer tokens than requested
        source_size = None if self.source is self.target else self.source.vocab_size
        self.config = setup.fitted(vocab_size=self.target.vocab_size, source_vocab_size=source_size)

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Translator:
        """A translator."""
        return Translator(model, **codecs)

    def _corpus(self, part: PairSource, what: str, setup: Setup) -> Corpus:
        corpus = encoded(part.read, part.key, self.source, self.target, self.max_length, cache(), setup.say)
        about = corpus.about
        setup.count(
            what,
            f"{counted(about.kept, 'pair')}; dropped {about.empty:,} with an empty side "
            f"and {about.long:,} with more than {self.max_length} tokens",
            pairs=what,
            **dataclasses.asdict(about),
        )
        return corpus

    def units(self, batch: PairBatch) -> dict[str, int]:
        """Target tokens, without padding."""
        return {"tokens": int((batch.next_BT != PAD_ID).sum())}

    def loss(self, model: Any, batch: PairBatch) -> dict[str, SummedLoss]:
        """The loss of each target token, with label smoothing; logged without it."""
        smooth, plain, _ = loss(model, batch, self.label_smoothing)
        return {"tokens": SummedLoss(smooth, {"loss": plain})}

    def validate(self, model: Any) -> dict[str, float]:
        """The loss on all validation pairs, and the scores of greedy search on some of them."""
        translator = self.open(model, self.codecs)
        mean = means(self, model, self.valid.epoch(0))["loss"]
        found = translator.translate([source for source, _ in self.valid_pairs], beam=1)
        scores = bleu.score([best[0].text for best in found], [target for _, target in self.valid_pairs])
        return {"valid_loss": mean, "bleu": scores.bleu, "chrf": scores.chrf, "exact": scores.exact}

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss and BLEU."""
        return f"valid loss {values['valid_loss']:.3f}  BLEU {values['bleu']:.1f}"

    def card(self, values: Mapping[str, float]) -> list[str]:
        """The scores with their signatures."""
        title = f"Loss per token on all validation pairs; scores of greedy search on {len(self.valid_pairs)} of them:"
        return listed(title, values) + [f"- {name}: `{signature}`" for name, signature in bleu.signatures().items()]


def _stream(tokenizer: SubwordTokenizer, tokens: Sequence[int]) -> Stream:
    (text,) = tokenizer.decode([tokens])
    return text_stream(tokens, tokenizer.pieces(tokens), TextLayout(tuple(tokenizer.words(tokens)), _words(text)))


def _words(text: str) -> tuple[str, ...]:
    """The words of a text, split like `SubwordTokenizer.words`: only at ASCII whitespace."""
    return tuple(word.decode() for word in text.encode().split())
