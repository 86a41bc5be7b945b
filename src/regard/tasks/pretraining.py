"""BERT's pre-training: masked language modelling (MLM) and next-sentence prediction (NSP)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.loss import linear_cross_entropy_and_hits
from regard.codecs.interface import CodecExamples
from regard.codecs.wordpiece import MASK
from regard.data.batches import BATCH_TOKENS, IGNORED, count_tokens
from regard.data.corpus import file_hash
from regard.data.documents import DocumentsConfig
from regard.data.pretraining import PretrainingBatch, PretrainingExamples, encoded
from regard.data.sequences import Encoded
from regard.decoding.finite import finite
from regard.errors import RegardError
from regard.explain.trace import Inputs, Trace
from regard.folders import cache
from regard.models.heads import PretrainingHead
from regard.tasks.embedding import Embedder
from regard.tasks.texts import as_given, expect_texts
from regard.training.setup import Setup
from regard.training.task import Curve, SummedLoss, Task, listed, means


class Pretrained(Protocol):
    """The encoder that pre-training needs: BERT's MLM head, the token embedding tied to it, and a pooler."""

    @property
    def tokens(self) -> Any:
        """The token embedding."""
        ...

    @property
    def head(self) -> Any:
        """The `WordHead`."""
        ...

    def pool(self, x_BTD: Tensor) -> Tensor:
        """The vector of the whole text."""
        ...


def word_loss(
    model: Pretrained, x_BTD: Tensor, batch: PretrainingBatch, label_smoothing: float = 0.0
) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed MLM loss, and the sums to log: the loss without label smoothing and the correct predictions."""
    is_target_BT = batch.words_BT != IGNORED
    words_N, x_ND = batch.words_BT[is_target_BT], model.head(x_BTD[is_target_BT][None])[0]
    smooth, plain, hits = linear_cross_entropy_and_hits(
        x_ND, model.tokens.weight, model.head.bias, words_N, label_smoothing
    )
    return smooth, {"loss": plain, "mlm_loss": plain, "mlm_accuracy": hits}


def next_loss(model: Pretrained, x_BTD: Tensor, batch: PretrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed NSP loss, and the sums to log."""
    is_target_B = batch.follows_B != IGNORED
    logits_B2 = model.head.next(model.pool(x_BTD))[:, 0][is_target_B]
    follows_B = batch.follows_B[is_target_B]
    loss, right = F.cross_entropy(logits_B2, follows_B, reduction="sum"), (logits_B2.argmax(1) == follows_B).sum()
    return loss, {"loss": loss.detach(), "nsp_loss": loss.detach(), "nsp_accuracy": right}


@dataclass(frozen=True)
class WordPrediction:
    """A candidate for a masked word."""

    word: str
    probability: float


class MaskFiller(Embedder):
    """A BERT with its MLM head, which fills masks."""

    @overload
    def fill(self, texts: str, count: int = 5) -> list[list[WordPrediction]]: ...  # type: ignore[overload-overlap]
    @overload
    def fill(self, texts: Sequence[str], count: int = 5) -> list[list[list[WordPrediction]]]: ...

    def fill(self, texts: str | Sequence[str], count: int = 5) -> Any:
        """For each `[MASK]` in a text, the `count` most probable words, best first."""
        return as_given(texts, self._fill(expect_texts(texts), count))

    @torch.no_grad()
    def _fill(self, texts: Sequence[str], count: int) -> list[list[list[WordPrediction]]]:
        encoded, mask = [self.read(text) for text in texts], self.tokenizer.mask
        for text, one in zip(texts, encoded, strict=True):
            if mask not in one.tokens:
                where = f" within its first {self.model.limit} tokens" if one.is_truncated else ""
                raise RegardError(
                    f"the text {text[:60]!r} contains no {MASK}{where}; write {MASK} in place of each word to predict"
                )
        result: dict[int, list[list[WordPrediction]]] = {}
        for indices, batch in self.batches(encoded, BATCH_TOKENS):
            x_BTD = self.model.hidden(*batch.inputs)
            for i, x_TD, tokens_T in zip(indices, x_BTD, batch.tokens_BT, strict=True):
                logits_NV = self.model.answer(x_TD[tokens_T == mask][None])[0]
                result[i] = self._candidates(logits_NV, min(count, logits_NV.size(1)))
        return [result[i] for i in range(len(texts))]

    def _candidates(self, logits_NV: Tensor, count: int) -> list[list[WordPrediction]]:
        best = finite(logits_NV).softmax(-1).topk(count)
        return [
            [WordPrediction(word, p) for word, p in zip(self.tokenizer.pieces(words), probabilities, strict=True)]
            for words, probabilities in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]

    def _masked(self, encoded: Encoded) -> tuple[int, ...]:
        """The positions of the masks."""
        return tuple(i for i, token in enumerate(encoded.tokens) if token == self.tokenizer.mask)

    @torch.no_grad()
    def follows(self, one: str, other: str) -> float:
        """The probability that sentence `other` follows sentence `one`."""
        if self.model.head.next is None:
            raise RegardError("this model was not trained on next-sentence prediction")
        x_BTD = self.model.hidden(*self.inputs(self.encode([one], [other])[0]))
        return float(self.model.head.next(self.model.pool(x_BTD))[0, 0].softmax(0)[0])

    @torch.no_grad()
    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """The model applied to a text; the output is the text with its masks filled, unless a target is given."""
        encoded = self.read(self._text(inputs))
        arguments = self.inputs(encoded)
        if target is None:
            best_T, mask = self.model(*arguments)[0].argmax(1).tolist(), self.tokenizer.mask
            target = [best if token == mask else token for best, token in zip(best_T, encoded.tokens, strict=True)]
        predicted = self.read(target).tokens if isinstance(target, str) else target
        streams = {"text": self.stream(encoded.tokens, encoded.segments)}
        return Trace(
            self.model,
            arguments,
            streams,
            "text",
            self.stream(predicted),
            tuple(predicted),
            self.tokenizer.pieces,
            self._masked(encoded),
        )


class PretrainingTask(Task):
    """Text; the losses and accuracies of MLM and NSP."""

    name = "pretraining"
    verbs = ("fill", "look", "explore", "embed")
    data = (DocumentsConfig,)

    def __init__(self, setup: Setup) -> None:
        data = setup.data
        key = f"{file_hash(*data.paths())} {data.split}"
        setup.claim(key)
        context = getattr(setup.model, "context", None)
        if context is not None and context > data.max_length and not setup.has_initial_model:
            setup.say(
                f"positions {data.max_length} to {context - 1} are never trained; "
                f"set model.context={data.max_length}, or data.max_length={context}"
            )
        self.codecs = setup.codecs(text=CodecExamples(lambda: chain.from_iterable(data.documents(valid=False))))
        self.tokenizer = self.codecs["text"]
        examples = []
        for what, valid in (("training", False), ("validation", True)):
            sentences = encoded(partial(data.documents, valid), f"{key} {what}", self.tokenizer, cache(), setup.say)
            counts = {
                "documents": len(sentences.documents) - 1,
                "sentences": len(sentences),
                "tokens": int(sentences.begins[-1]),
            }
            setup.count(what, ", ".join(f"{count:,} {name}" for name, count in counts.items()), text=what, **counts)
            examples.append(
                PretrainingExamples(
                    sentences,
                    self.tokenizer,
                    max_length=data.max_length,
                    mask_rate=data.mask_rate,
                    whole_words=data.whole_words,
                    short_rate=data.short_rate,
                    next_sentence=data.next_sentence,
                    seed=0 if valid else setup.seed,
                )
            )
        self.batches, self.valid = setup.batches(*examples)
        self.label_smoothing = setup.train.label_smoothing
        self.config = replace(setup.fitted(**self.tokenizer.sizes()), head=PretrainingHead(pooled=data.next_sentence))
        words = Curve("mlm_loss", "valid_mlm_accuracy", "masked words predicted")
        pairs = Curve("nsp_loss", "valid_nsp_accuracy", "next sentences recognised")
        self.curves = (words, pairs) if data.next_sentence else (words,)

    @classmethod
    def open(cls, model: nn.Module, codecs: Mapping[str, Any]) -> MaskFiller:
        """A pipeline that fills masks."""
        return MaskFiller(model, codecs["text"])

    def units(self, batch: PretrainingBatch) -> dict[str, int]:
        """Tokens, masked words, and pairs of texts."""
        return {
            "tokens": count_tokens(batch.tokens_BT, batch.is_padding_BT),
            "words": int((batch.words_BT != IGNORED).sum()),
            "pairs": int((batch.follows_B != IGNORED).sum()),
        }

    def loss(self, model: Any, batch: PretrainingBatch) -> dict[str, SummedLoss]:
        """The MLM loss of words, and the NSP loss of pairs."""
        x_BTD = model.hidden(*batch.inputs)
        result = {"words": SummedLoss(*word_loss(model, x_BTD, batch, self.label_smoothing))}
        if model.head.next is not None:
            result["pairs"] = SummedLoss(*next_loss(model, x_BTD, batch))
        return result

    def validate(self, model: Any) -> dict[str, float]:
        """The losses and accuracies on the validation text."""
        found = means(self, model, self.valid.epoch(0))
        return {f"valid_{name}": value for name, value in found.items()}

    def describe(self, values: Mapping[str, float]) -> str:
        """The loss, and the accuracy on words and pairs."""
        words = f"valid loss {values['valid_loss']:.3f}  words {values['valid_mlm_accuracy']:.1%}"
        return words + (f"  next {values['valid_nsp_accuracy']:.1%}" if "valid_nsp_accuracy" in values else "")

    def card(self, values: Mapping[str, float]) -> list[str]:
        """Losses and accuracies of masked words (mlm) and next sentences (nsp)."""
        return listed("On held-out text:", values)
