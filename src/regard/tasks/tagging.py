"""A tag for each word of a sentence."""

import re
from collections.abc import Sequence
from typing import Any, Protocol, overload

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.data.batches import TOKENS, given, in_batches
from regard.data.pretraining import IGNORED
from regard.data.tagged import in_pieces, stacked
from regard.data.words import Words
from regard.errors import RegardError
from regard.explain.reading import Reading, Stream
from regard.tasks.encoding import Encoder
from regard.tasks.texts import as_given, expect_texts

# a word with the apostrophes, points and hyphens inside it, or a sign
WORD = re.compile(r"\w+(?:['’.\-]\w+)*|[^\w\s]")


class TaggedBatch(Protocol):
    """Sentences, and the tags asked for."""

    @property
    def tag_BT(self) -> Tensor:
        """The number of each tag asked for."""
        ...

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        ...


def loss(model: Any, batch: TaggedBatch, smoothing: float = 0.0) -> tuple[Tensor, dict[str, Tensor]]:
    """The summed loss of the tags asked for, and sums to tell of."""
    asked_BT = batch.tag_BT != IGNORED
    logits_NV, tag_N = model(*batch.inputs)[asked_BT], batch.tag_BT[asked_BT]
    smooth = F.cross_entropy(logits_NV, tag_N, reduction="sum", label_smoothing=smoothing)
    with torch.no_grad():
        plain = F.cross_entropy(logits_NV, tag_N, reduction="sum")
        return smooth, {"loss": plain, "accuracy": (logits_NV.argmax(1) == tag_N).sum()}


def words(text: str) -> list[str]:
    """The words and signs of a text."""
    return WORD.findall(text)


class TagsWords:
    """What tags the words of sentences: texts, which are split into words, or lists of words."""

    @overload
    def tag(self, sentences: str, *, batch_tokens: int = TOKENS) -> list[str | None]: ...  # type: ignore[overload-overlap]
    @overload
    def tag(
        self, sentences: Sequence[str | Sequence[str]], *, batch_tokens: int = TOKENS
    ) -> list[list[str | None]]: ...

    def tag(self, sentences: str | Sequence[str | Sequence[str]], *, batch_tokens: int = TOKENS) -> Any:
        """The tags of each sentence, a text or a list of words; None for words beyond what the model can take."""
        some = [sentences] if isinstance(sentences, str) else sentences
        given = [words(one) if isinstance(one, str) else expect_texts(one, "words") for one in some]
        return as_given(sentences, self._tag(given, batch_tokens))

    def _tag(self, given: Sequence[Sequence[str]], batch_tokens: int) -> list[list[str | None]]:
        raise NotImplementedError


class PieceTagger(TagsWords, Encoder):
    """A BERT that tags words by their first piece."""

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags."""
        return self.model.config.labels

    @torch.no_grad()
    def _tag(self, given: Sequence[Sequence[str]], batch_tokens: int) -> list[list[str | None]]:
        pieces = in_pieces(self.tokenizer, given, self.model.limit)
        result: list[list[str | None]] = [[None] * len(sentence) for sentence in given]
        for indices, batch in self.batches([p.encoded for p in pieces], batch_tokens):
            best_BT = self.model(*batch.inputs).argmax(2).tolist()
            for i, best_T in zip(indices, best_BT, strict=True):
                for word, place in enumerate(pieces[i].firsts):
                    result[i][word] = self.labels[best_T[place]]
        return result

    @torch.no_grad()
    def reading(self, text: str, said: str | Sequence[int] | None = None) -> Reading:
        """The model at work on a text, and the tag that it gives each token, unless others are given."""
        (read,) = in_pieces(self.tokenizer, [words(text)], self.model.limit)
        encoded, firsts = read.encoded, read.firsts
        inputs = self.inputs(encoded)
        if isinstance(said, str):
            said = [self._number(name) for name in said.split()]
        tags = said or self.model(*inputs)[0].argmax(1).tolist()

        def pieces(numbers: Sequence[int]) -> list[str]:
            return [self.labels[number] for number in numbers]

        stream = self.stream(encoded.tokens)
        names, number = tuple(pieces(tags)), {place: word for word, place in enumerate(firsts)}
        of_words = tuple(number.get(place, -1) for place in range(len(tags)))  # what other pieces say does not count
        spoken = Stream(tuple(tags), names, of_words, tuple(names[place] for place in firsts))
        return Reading(self.model, inputs, {"text": stream}, "text", spoken, tuple(tags), pieces)

    def _number(self, name: str) -> int:
        if name not in self.labels:
            raise RegardError(f"{name!r} is not a tag of this model; it has {', '.join(self.labels)}")
        return self.labels.index(name)


class WordTagger(TagsWords):
    """A recurrent tagger."""

    def __init__(self, model: nn.Module, tokenizer: Words) -> None:
        self.model: Any = model.eval()
        self.tokenizer = tokenizer
        self.device = next(model.parameters()).device

    @property
    def labels(self) -> tuple[str, ...]:
        """All tags."""
        return self.model.config.labels

    @torch.no_grad()
    def _tag(self, sentences: Sequence[Sequence[str]], batch_tokens: int) -> list[list[str | None]]:
        features = self.tokenizer.encode(sentences)
        result: list[list[str | None]] = [[] for _ in sentences]
        for indices in in_batches([len(sentence) for sentence in sentences], batch_tokens):
            inputs = (x.to(self.device) for x in given(*stacked([features[i] for i in indices])))
            best_BT = self.model(*inputs).argmax(2).tolist()
            for i, best_T in zip(indices, best_BT, strict=True):
                result[i] = [self.labels[number] for number in best_T[: len(sentences[i])]]
        return result
