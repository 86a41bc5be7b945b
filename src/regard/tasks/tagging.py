"""Tagging: a tag, such as the part of speech, for each word of a sentence."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.codecs.interface import CodecExamples
from regard.codecs.words import Words
from regard.counts import counted
from regard.data.batches import BATCH_TOKENS, IGNORED, given, in_batches
from regard.data.conllu import Sentence
from regard.data.iob import has_spans
from regard.data.tagged import (
    ConlluConfig,
    IobConfig,
    PieceBatch,
    TaggedPieces,
    TaggedWords,
    WordBatch,
    in_pieces,
    stacked,
)
from regard.decoding.finite import finite
from regard.errors import RegardError
from regard.evaluation import spans as span_scoring
from regard.evaluation import tagging as scoring
from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import Inputs, Trace
from regard.models.heads import TaggingHead
from regard.tasks.embedding import Embedder
from regard.tasks.fine_tuning import check_rate
from regard.tasks.pipeline import Pipeline
from regard.tasks.tagging_evaluation import EvaluatesTags
from regard.tasks.texts import as_given, expect_texts
from regard.training.setup import Setup
from regard.training.task import Curve, SummedLoss, Task, listed, means

# a word with the apostrophes, full stops and hyphens inside it, or a symbol
WORD = re.compile(r"\w+(?:['’.\-]\w+)*|[^\w\s]")


class TaggedBatch(Protocol):
    """Sentences with the tags to predict."""

    @property
    def tag_BT(self) -> Tensor:
        """The index of each tag to predict."""
        ...

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        ...


def loss(model: Any, batch: TaggedBatch, label_smoothing: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed cross-entropy of the tags, and the sums to log."""
    is_tagged_BT = batch.tag_BT != IGNORED
    logits_NV, tag_N = model(*batch.inputs)[is_tagged_BT], batch.tag_BT[is_tagged_BT]
    smooth = F.cross_entropy(logits_NV, tag_N, reduction="sum", label_smoothing=label_smoothing)
    with torch.no_grad():
        plain = F.cross_entropy(logits_NV, tag_N, reduction="sum")
        return smooth, {"loss": plain, "accuracy": (logits_NV.argmax(1) == tag_N).sum()}


def words(text: str) -> list[str]:
    """The words and symbols of a text."""
    return WORD.findall(text)


class Tagger(EvaluatesTags, Pipeline):
    """Tags the words of sentences; a sentence is a text, which is split into words, or a list of words."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags."""
        raise NotImplementedError

    @overload
    def tag(self, sentences: str, *, batch_tokens: int = BATCH_TOKENS) -> list[str | None]: ...  # type: ignore[overload-overlap]
    @overload
    def tag(
        self, sentences: Sequence[str | Sequence[str]], *, batch_tokens: int = BATCH_TOKENS
    ) -> list[list[str | None]]: ...

    def tag(self, sentences: str | Sequence[str | Sequence[str]], *, batch_tokens: int = BATCH_TOKENS) -> Any:
        """The tags of each sentence, a text or a list of words; None for words beyond the maximum length."""
        if not isinstance(sentences, str) and (not isinstance(sentences, Sequence) or isinstance(sentences, bytes)):
            raise RegardError(f"sentences should be a text or a list of texts or lists of words; got {sentences!r}")
        some = [sentences] if isinstance(sentences, str) else sentences
        given = [self.split(one) if isinstance(one, str) else expect_texts(one, "words") for one in some]
        return as_given(sentences, self._tag(given, batch_tokens))

    def split(self, text: str) -> list[str]:
        """The words and symbols of a text, each of which gets a tag."""
        return words(text)

    def _tag(self, given: Sequence[Sequence[str]], batch_tokens: int) -> list[list[str | None]]:
        raise NotImplementedError


class PieceTagger(Tagger, Embedder):
    """A BERT that tags each word by its first subword."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags."""
        return tuple(self.model.config.labels)

    @torch.no_grad()
    def _tag(self, given: Sequence[Sequence[str]], batch_tokens: int) -> list[list[str | None]]:
        pieces = in_pieces(self.tokenizer, given, self.model.limit)
        result: list[list[str | None]] = [[None] * len(sentence) for sentence in given]
        for indices, batch in self.batches([p.encoded for p in pieces], batch_tokens):
            best_BT = finite(self.model(*batch.inputs)).argmax(2).tolist()
            for i, best_T in zip(indices, best_BT, strict=True):
                for word, place in enumerate(pieces[i].firsts):
                    result[i][word] = self.labels[best_T[place]]
        return result

    @torch.no_grad()
    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to a text; the output is the tag of each token, predicted or given."""
        (read,) = in_pieces(self.tokenizer, [words(self._text(inputs))], self.model.limit)
        encoded, firsts = read.encoded, read.firsts
        arguments = self.inputs(encoded)
        if isinstance(target, str):
            target = [self._number(name) for name in target.split()]
        tags = target or self.model(*arguments)[0].argmax(1).tolist()

        def pieces(numbers: Sequence[int]) -> list[str]:
            return [self.labels[number] for number in numbers]

        stream = self.stream(encoded.tokens)
        names, number = tuple(pieces(tags)), {place: word for word, place in enumerate(firsts)}
        of_words = tuple(number.get(place, -1) for place in range(len(tags)))  # only first subwords count
        predicted = text_stream(tags, names, TextLayout(of_words, tuple(names[place] for place in firsts)))
        return Trace(self.model, arguments, {"text": stream}, "text", predicted, tuple(tags), pieces, tuple(firsts))

    def _number(self, name: str) -> int:
        if name not in self.labels:
            raise RegardError(f"{name!r} is not a tag of this model; it has {', '.join(self.labels)}")
        return self.labels.index(name)


class WordTagger(Tagger):
    """A recurrent tagger with its word vocabulary."""

    def __init__(self, model: nn.Module, tokenizer: Words) -> None:
        self.model: Any = model.eval()
        self.tokenizer = tokenizer
        self.device = next(model.parameters()).device

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags."""
        return tuple(self.model.config.labels)

    @torch.no_grad()
    def _tag(self, sentences: Sequence[Sequence[str]], batch_tokens: int) -> list[list[str | None]]:
        features = self.tokenizer.encode(sentences)
        result: list[list[str | None]] = [[] for _ in sentences]
        for indices in in_batches([len(sentence) for sentence in sentences], batch_tokens):
            inputs = (x.to(self.device) for x in given(*stacked([features[i] for i in indices])))
            best_BT = finite(self.model(*inputs)).argmax(2).tolist()
            for i, best_T in zip(indices, best_BT, strict=True):
                result[i] = [self.labels[number] for number in best_T[: len(sentences[i])]]
        return result


class TaggingTask(Task):
    """Sentences of tagged words, read as subwords; cross-entropy; accuracy and F1, or F1 of spans."""

    name = "tagging"
    verbs: ClassVar[tuple[str, ...]] = ("tag", "embed", "evaluate", "compare", "look", "explore")
    data = (ConlluConfig, IobConfig)
    curves: Sequence[Curve] = (Curve(score="valid_accuracy", label="accuracy"),)
    examples: ClassVar[Any] = TaggedPieces

    def __init__(self, setup: Setup) -> None:
        data = setup.data
        setup.claim(*data.keys())
        check_rate(setup)
        self.label_smoothing = setup.train.label_smoothing
        sentences, self.valid_sentences = data.parts(setup.say)
        self.labels = tuple(sorted({tag for sentence in sentences for tag in sentence.tags}))
        self.has_spans = has_spans(self.labels)
        if self.has_spans:
            self.curves = (Curve(score="valid_f1", label="F1 of spans"),)
        unknown = Counter(tag for sentence in self.valid_sentences for tag in sentence.tags if tag not in self.labels)
        if unknown:
            found = ", ".join(f"{tag} ({count})" for tag, count in unknown.most_common(10))
            setup.say(f"validation: tags that are not in the training data and cannot be learned: {found}")
        self.codecs = setup.codecs(text=CodecExamples(lambda: map(self.read, sentences)))
        self.config = self.labelled(setup.fitted(**self.codecs["text"].sizes()))
        max_length = setup.max_length(data.max_length)
        train, valid = (
            self.examples(self.codecs["text"], part, self.labels, max_length)
            for part in (sentences, self.valid_sentences)
        )
        for what, part in (("training", train), ("validation", valid)):
            kept = len(part.tags)
            text = f"{counted(kept, 'sentence')}; {part.truncated:,} truncated to {max_length} tokens"
            setup.count(what, text, sentences=what, kept=kept, truncated=part.truncated)
        self.batches, self.valid = setup.batches(train, valid)

    @staticmethod
    def read(sentence: Sentence) -> Any:
        """The text that a tokenizer is trained on."""
        return " ".join(sentence.words)

    def labelled(self, config: Any) -> Any:
        """The config of the model with the tags of the training data."""
        return replace(config, head=TaggingHead(labels=self.labels))

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Tagger:
        """A tagger."""
        return PieceTagger(model, codecs["text"])

    def units(self, batch: PieceBatch | WordBatch) -> dict[str, int]:
        """Tagged words, which the throughput also counts as tokens."""
        words = int((batch.tag_BT != IGNORED).sum())
        return {"tokens": words, "words": words}

    def loss(self, model: Any, batch: PieceBatch | WordBatch) -> dict[str, SummedLoss]:
        """The loss of each word."""
        return {"words": SummedLoss(*loss(model, batch, self.label_smoothing))}

    def validate(self, model: Any) -> dict[str, float]:
        """The loss, and the scores of the predicted tags."""
        mean = means(self, model, self.valid.epoch(0))["loss"]
        given = self.open(model, self.codecs).tag([sentence.words for sentence in self.valid_sentences])
        gold = [sentence.tags for sentence in self.valid_sentences]
        predicted = [[str(tag) for tag in tags] for tags in given]
        if self.has_spans:
            spans = span_scoring.scores(gold, predicted)
            f1 = {"valid_f1": spans["f1"], "valid_precision": spans["precision"], "valid_recall": spans["recall"]}
            return {"valid_loss": mean, "valid_accuracy": spans["accuracy"], **f1}
        found = scoring.scores(gold, predicted)
        return {"valid_loss": mean, "valid_accuracy": found["accuracy"], "valid_macro_f1": found["macro_f1"]}

    def selection_loss(self, values: Mapping[str, float]) -> float:
        """The accuracy, or the F1 of spans, negated."""
        return -values["valid_f1" if self.has_spans else "valid_accuracy"]

    def describe(self, values: Mapping[str, float]) -> str:
        """Loss, accuracy and F1."""
        f1 = f"F1 {values['valid_f1']:.2%}" if self.has_spans else f"macro F1 {values['valid_macro_f1']:.1%}"
        return f"valid loss {values['valid_loss']:.3f}  accuracy {values['valid_accuracy']:.2%}  {f1}"

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Loss and scores on the validation sentences."""
        return listed(f"On {len(self.valid_sentences):,} validation sentences:", values)


class WordTaggingTask(TaggingTask):
    """Tagging of whole words, for a recurrent tagger."""

    name = "word_tagging"
    verbs: ClassVar = ("tag", "evaluate", "compare")
    unknown: ClassVar = {"labels": ["", "_"]}
    examples = TaggedWords

    @staticmethod
    def read(sentence: Sentence) -> Any:
        """The words."""
        return sentence.words

    def labelled(self, config: Any) -> Any:
        """The config of the model with the tags of the training data."""
        return replace(config, labels=self.labels)

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> Tagger:
        """A tagger."""
        return WordTagger(model, codecs["text"])
