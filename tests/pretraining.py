"""Texts whose tokens are their positions, and pre-training examples of them."""

from itertools import pairwise
from math import sqrt
from pathlib import Path

import numpy as np
import torch

from regard.data.batches import IGNORED
from regard.data.pretraining import PretrainingBatch, PretrainingEpoch, Sentences, encoded

SPECIALS = PAD_ID, UNKNOWN, BEGIN, END, MASK = range(5)


class Numbers:
    """A tokenizer whose words are token ids; ids that are not divisible by 4 continue a word."""

    pad, unknown, begin, end, mask = SPECIALS
    specials = frozenset(SPECIALS)

    def __init__(self, vocab_size: int) -> None:
        self.vocab_size = vocab_size

    def encode(self, texts: list[str]) -> list[list[int]]:
        return [[int(word) for word in text.split()] for text in texts]

    def pieces(self, ids: list[int]) -> list[str]:
        return [f"##{i}" if i % 4 and i not in SPECIALS else str(i) for i in ids]

    def to_json(self) -> str:
        return str(self.vocab_size)


def corpus(folder: Path, documents: list[list[int]]) -> tuple[Sentences, Numbers]:
    """Documents with sentences of these lengths, whose tokens are consecutive numbers from 5."""
    bounds = np.cumsum([5, *(length for document in documents for length in document)])
    sentences = iter([" ".join(map(str, range(*bound))) for bound in pairwise(bounds)])
    texts = [[next(sentences) for _ in document] for document in documents]
    tokenizer = Numbers(int(bounds[-1]))
    return encoded(lambda: iter(texts), "key", tokenizer, folder), tokenizer


def unpadded_examples(epoch: PretrainingEpoch) -> list[PretrainingBatch]:
    """Each example of an epoch, without padding."""
    lengths = epoch.lengths[:, 0].tolist()
    whole = epoch.fetch(np.arange(len(lengths)))
    result = []
    for i, length in enumerate(lengths):
        texts = (tensor[i : i + 1, :length] for tensor in (whole.tokens_BT, whole.segments_BT, whole.words_BT))
        result.append(PretrainingBatch(*texts, whole.follows_B[i : i + 1]))
    return result


def texts(batch: PretrainingBatch) -> tuple[list[int], list[int]]:
    """The original tokens of texts A and B of a batch of one; checks their special tokens and segments."""
    tokens = torch.where(batch.words_BT == IGNORED, batch.tokens_BT, batch.words_BT)[0].tolist()
    middle = tokens.index(END)
    assert tokens[0] == BEGIN
    assert tokens[-1] == END
    assert batch.segments_BT[0].tolist() == [0] * (middle + 1) + [1] * (len(tokens) - middle - 1)
    return tokens[1:middle], tokens[middle + 1 : -1]


def is_near_expected(count: int, trials: int, share: float) -> bool:
    """Whether the count is within 5 standard deviations of the binomial mean, which fails once in a million times."""
    return abs(count - trials * share) < 5 * sqrt(trials * share * (1 - share))
