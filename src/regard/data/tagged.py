"""Sentences with a tag for each word: as subwords for BERT, as whole words for a tagger."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from regard.codecs.wordpiece import WordPiece
from regard.codecs.words import Words
from regard.data import iob, sequences
from regard.data.batches import IGNORED, Batch, Indices, SameEachEpoch, given, pad, padding
from regard.data.conllu import Column, Sentence, sentences
from regard.data.held_out import Say, TrainingFiles
from regard.data.sequences import MaxLength
from regard.models.rnn_tagger import PAD_FEATURE


@dataclass(frozen=True, kw_only=True)
class ConlluConfig(TrainingFiles):
    """Words with their parts of speech, in the CoNLL-U format of Universal Dependencies."""

    renamed: ClassVar = {"longest": "max_length"}
    kind: Literal["conllu"] = "conllu"
    column: Column = "upos"
    """Tag column: universal part-of-speech tags (`upos`) or the treebank's own (`xpos`)."""
    max_length: MaxLength = 256
    """Maximum length in tokens; longer sentences are truncated."""

    def keys(self) -> list[str]:
        """Hashes of everything that the sentences depend on."""
        return [*super().keys(), self.column]

    def read(self, path: Path, _say: Say = warnings.warn) -> list[Sentence]:
        """The sentences of a file."""
        return list(sentences(path, self.column))


@dataclass(frozen=True, kw_only=True)
class IobConfig(TrainingFiles):
    """Words with tags in columns, such as named entities in the IOB format of CoNLL-2003."""

    kind: Literal["iob"] = "iob"
    column: Annotated[int, Field(ge=2)] | None = None
    """Tag column, counted from 1; without it, the last. The first column has the words."""
    max_length: MaxLength = 256
    """Maximum length in tokens; longer sentences are truncated."""

    def keys(self) -> list[str]:
        """Hashes of everything that the sentences depend on."""
        return [*super().keys(), f"iob {self.column}"]

    def read(self, path: Path, _say: Say = warnings.warn) -> list[Sentence]:
        """The sentences of a file."""
        return list(iob.sentences(path, self.column))


@dataclass(frozen=True)
class PieceBatch(Batch):
    """Sentences as subwords; the tag of a word is predicted at its first subword."""

    targets: ClassVar = {"tag_BT": IGNORED}
    tokens_BT: Tensor
    segments_BT: Tensor
    tag_BT: Tensor
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return given(self.tokens_BT, self.segments_BT, self.is_padding_BT)


@dataclass(frozen=True)
class WordBatch(Batch):
    """Sentences as words, each with its features."""

    targets: ClassVar = {"tag_BT": IGNORED}
    features_BTE: Tensor
    tag_BT: Tensor
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return given(self.features_BTE, self.is_padding_BT)


@dataclass(frozen=True)
class Pieces:
    """A sentence as subwords, with the positions of its words."""

    encoded: sequences.Encoded
    firsts: list[int]
    """The index of the first subword of each word that was not truncated."""


def in_pieces(tokenizer: WordPiece, given: Sequence[Sequence[str]], max_length: int | None) -> list[Pieces]:
    """Splits the words of sentences into subwords, truncated to `max_length`."""
    result = []
    for tokens, words in tokenizer.encode_words(given):
        encoded = sequences.with_special_tokens(tokenizer, tokens, None, max_length)
        kept = words[: len(encoded.tokens) - 2]
        firsts = [i + 1 for i, word in enumerate(kept) if not i or kept[i - 1] != word]
        result.append(Pieces(encoded, firsts))
    return result


class TaggedPieces(SameEachEpoch):
    """Tagged sentences as subwords; each epoch holds all of them."""

    def __init__(self, tokenizer: WordPiece, given: Sequence[Sentence], labels: Sequence[str], max_length: int) -> None:
        self.tokenizer = tokenizer
        self.sentences = in_pieces(tokenizer, [sentence.words for sentence in given], max_length)
        self.truncated = sum(pieces.encoded.is_truncated for pieces in self.sentences)
        indices = _indices(given, labels)
        self.tags = []
        for pieces, tags in zip(self.sentences, indices, strict=True):
            targets = np.full(len(pieces.encoded.tokens), IGNORED)
            targets[pieces.firsts] = tags[: len(pieces.firsts)]
            self.tags.append(targets)
        self.lengths = np.array([[len(tags)] for tags in self.tags], np.int32)

    def fetch(self, indices: Indices) -> PieceBatch:
        """The sentences with these indices."""
        texts = sequences.text_batch(self.tokenizer, [self.sentences[i].encoded for i in indices])
        tag_BT = pad([self.tags[i] for i in indices], IGNORED)
        return PieceBatch(texts.tokens_BT, texts.segments_BT, tag_BT, texts.is_padding_BT)


class TaggedWords(SameEachEpoch):
    """Tagged sentences as words; each epoch holds all of them."""

    def __init__(self, tokenizer: Words, given: Sequence[Sentence], labels: Sequence[str], max_length: int) -> None:
        self.features = [x[:max_length] for x in tokenizer.encode([sentence.words for sentence in given])]
        self.tags = [tags[:max_length] for tags in _indices(given, labels)]
        self.truncated = sum(len(sentence.words) > max_length for sentence in given)
        self.lengths = np.array([[len(tags)] for tags in self.tags], np.int32)

    def fetch(self, indices: Indices) -> WordBatch:
        """The sentences with these indices."""
        features_BTE, is_padding_BT = stacked([self.features[i] for i in indices])
        return WordBatch(features_BTE, pad([self.tags[i] for i in indices], IGNORED), is_padding_BT)


def stacked(features: Sequence[np.ndarray]) -> tuple[Tensor, Tensor | None]:
    """Features of sentences of different lengths as one padded tensor, and the padding mask."""
    columns = zip(*(x.T for x in features), strict=True)
    return torch.stack([pad(column, PAD_FEATURE) for column in columns], dim=2), padding([len(x) for x in features])


def _indices(given: Sequence[Sentence], labels: Sequence[str]) -> list[list[int]]:
    index = {label: i for i, label in enumerate(labels)}
    # a tag that does not occur in the training data cannot be learned, so the loss ignores it
    return [[index.get(tag, IGNORED) for tag in sentence.tags] for sentence in given]
