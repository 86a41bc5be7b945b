"""Batches of sentence pairs for training a translator."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from regard.codecs.subword import BEGIN, END, PAD_ID
from regard.data.batches import Batch, Indices, Lengths, given, pad, padding
from regard.data.corpus import SIDES, Corpus
from regard.errors import RegardError


@dataclass(frozen=True)
class PairBatch(Batch):
    """Sentence pairs: source tokens, decoder input (target shifted right), and the next token at each position."""

    targets: ClassVar = {"next_BT": PAD_ID}
    source_BS: Tensor
    target_BT: Tensor
    next_BT: Tensor
    is_padding_BS: Tensor | None = None
    """Padding mask of the source; None if there is no padding."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return given(self.source_BS, self.target_BT, self.is_padding_BS)


class Pairs:
    """The sentence pairs of one or more corpora.

    Args:
        corpora: the corpora, each with its sampling weight: how often each of its pairs occurs in an epoch. With
            weight 2.5, each pair occurs twice, and half of the pairs, sampled in each epoch, once more.
    """

    def __init__(self, corpora: Sequence[tuple[Corpus, float]], seed: int) -> None:
        self.corpora, self.seed = corpora, seed
        self.first = np.cumsum([0, *(len(corpus) for corpus, _ in corpora)])
        # both sides get one more token: the source its end, the target its beginning or end
        sides = [np.concatenate([corpus.lengths(side) for corpus, _ in corpora]) + 1 for side in SIDES]
        self.lengths: Lengths = np.stack(sides, axis=1)
        if not len(self.lengths):
            raise RegardError("no sentence pairs are left; check the counts of dropped pairs")

    @property
    def max_length(self) -> int:
        """The length of the longest sentence in tokens."""
        return int(self.lengths.max())

    def epoch(self, number: int) -> "PairsEpoch":
        """The pairs of an epoch."""
        rng = np.random.default_rng([self.seed, number])
        sampled = []
        for (corpus, weight), first in zip(self.corpora, self.first, strict=False):
            whole, part = divmod(weight, 1)
            sampled += [np.arange(len(corpus)) + first] * int(whole)
            minimum = min(1, len(corpus)) if weight < 1 else 0  # at least one pair, however small the weight
            sampled.append(rng.permutation(len(corpus))[: max(minimum, round(part * len(corpus)))] + first)
        return PairsEpoch(self, np.concatenate(sampled))


@dataclass(frozen=True)
class PairsEpoch:
    """The pairs sampled for an epoch; a pair may occur several times."""

    pairs: Pairs
    sampled: Indices

    @property
    def lengths(self) -> Lengths:
        """The number of tokens of each source and target."""
        return self.pairs.lengths[self.sampled]

    def fetch(self, indices: Indices) -> PairBatch:
        """The pairs with these indices."""
        chosen, first = self.sampled[indices], self.pairs.first
        which = np.searchsorted(first, chosen, side="right") - 1
        found = [(self.pairs.corpora[w][0], i) for w, i in zip(which, chosen - first[which], strict=True)]
        return pair_batch(*([corpus.sentence(side, i) for corpus, i in found] for side in SIDES))


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
    """Adds begin and end tokens, and pads to the longest sequence."""
    source_BS, is_padding_BS = source_batch(sources)
    return PairBatch(source_BS, pad(targets, PAD_ID, before=BEGIN), pad(targets, PAD_ID, after=END), is_padding_BS)


def source_batch(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    """Sources as the model reads them, each with its end token, and their padding mask."""
    return pad(sources, PAD_ID, after=END), padding([len(source) + 1 for source in sources])
