"""Sentences with a tag for each word, to learn from: in pieces of words for BERT, in whole words for a tagger."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from regard.codecs.wordpiece import WordPiece
from regard.codecs.words import Words
from regard.config import Config
from regard.data import sequences
from regard.data.batches import IGNORED, Batch, Indices, SameEachEpoch, given, pad, padding
from regard.data.conllu import Column, Sentence, sentences
from regard.data.sequences import MaxLength
from regard.data.text import existing
from regard.models.rnn_tagger import PAD_FEATURE


@dataclass(frozen=True, kw_only=True)
class ConlluConfig(Config):
    """Words with their parts of speech, in the format of Universal Dependencies."""

    renamed: ClassVar = {"longest": "max_length"}
    kind: Literal["conllu"] = "conllu"
    train: str
    """Training file in CoNLL-U format."""
    valid: str
    """Validation file in CoNLL-U format."""
    column: Column = "upos"
    """Tag column: universal part-of-speech tags (`upos`) or the treebank's own (`xpos`)."""
    max_length: MaxLength = 256
    """Maximum length in tokens; longer sentences are truncated."""

    def paths(self) -> tuple[Path, Path]:
        """The files to train on and to validate with."""
        return existing(self.train), existing(self.valid)

    def read(self, path: Path) -> list[Sentence]:
        """The sentences of a file."""
        return list(sentences(path, self.column))


@dataclass(frozen=True)
class PieceBatch(Batch):
    """Sentences in pieces of words; a tag is asked for at the first piece of each word."""

    targets: ClassVar = {"tag_BT": IGNORED}
    tokens_BT: Tensor
    segments_BT: Tensor
    tag_BT: Tensor
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return given(self.tokens_BT, self.segments_BT, self.is_padding_BT)


@dataclass(frozen=True)
class WordBatch(Batch):
    """Sentences in words, each with its features."""

    targets: ClassVar = {"tag_BT": IGNORED}
    features_BTE: Tensor
    tag_BT: Tensor
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return given(self.features_BTE, self.is_padding_BT)


@dataclass(frozen=True)
class Pieces:
    """A sentence of words as BERT reads it."""

    encoded: sequences.Encoded
    firsts: list[int]
    """Where each word begins, as far as they fit."""


def in_pieces(tokenizer: WordPiece, given: Sequence[Sequence[str]], max_length: int | None) -> list[Pieces]:
    """Sentences of words in pieces; words that do not fit are cut off."""
    result = []
    for tokens, words in tokenizer.encode_words(given):
        encoded = sequences.marked(tokenizer, tokens, None, max_length)
        kept = words[: len(encoded.tokens) - 2]
        firsts = [i + 1 for i, word in enumerate(kept) if not i or kept[i - 1] != word]
        result.append(Pieces(encoded, firsts))
    return result


class TaggedPieces(SameEachEpoch):
    """Tagged sentences in pieces of words, all of them in each epoch."""

    def __init__(self, tokenizer: WordPiece, given: Sequence[Sentence], labels: Sequence[str], max_length: int) -> None:
        self.tokenizer = tokenizer
        self.sentences = in_pieces(tokenizer, [sentence.words for sentence in given], max_length)
        self.truncated = sum(pieces.encoded.is_truncated for pieces in self.sentences)
        numbers = _numbers(given, labels)
        self.tags = []
        for pieces, tags in zip(self.sentences, numbers, strict=True):
            targets = np.full(len(pieces.encoded.tokens), IGNORED)
            targets[pieces.firsts] = tags[: len(pieces.firsts)]
            self.tags.append(targets)
        self.lengths = np.array([[len(tags)] for tags in self.tags], np.int32)

    def fetch(self, indices: Indices) -> PieceBatch:
        """The sentences of these numbers."""
        texts = sequences.text_batch(self.tokenizer, [self.sentences[i].encoded for i in indices])
        tag_BT = pad([self.tags[i] for i in indices], IGNORED)
        return PieceBatch(texts.tokens_BT, texts.segments_BT, tag_BT, texts.is_padding_BT)


class TaggedWords(SameEachEpoch):
    """Tagged sentences in words, all of them in each epoch."""

    def __init__(self, tokenizer: Words, given: Sequence[Sentence], labels: Sequence[str], max_length: int) -> None:
        self.features = [x[:max_length] for x in tokenizer.encode([sentence.words for sentence in given])]
        self.tags = [tags[:max_length] for tags in _numbers(given, labels)]
        self.truncated = sum(len(sentence.words) > max_length for sentence in given)
        self.lengths = np.array([[len(tags)] for tags in self.tags], np.int32)

    def fetch(self, indices: Indices) -> WordBatch:
        """The sentences of these numbers."""
        features_BTE, is_padding_BT = stacked([self.features[i] for i in indices])
        return WordBatch(features_BTE, pad([self.tags[i] for i in indices], IGNORED), is_padding_BT)


def stacked(features: Sequence[np.ndarray]) -> tuple[Tensor, Tensor | None]:
    """Features of sentences of different lengths as one tensor, and where there is no word."""
    columns = zip(*(x.T for x in features), strict=True)
    return torch.stack([pad(column, PAD_FEATURE) for column in columns], dim=2), padding([len(x) for x in features])


def _numbers(given: Sequence[Sentence], labels: Sequence[str]) -> list[list[int]]:
    number = {label: i for i, label in enumerate(labels)}
    # a tag that was never seen in training cannot be learnt, so it is not asked for
    return [[number.get(tag, IGNORED) for tag in sentence.tags] for sentence in given]
