"""Sentence pairs as a translator learns from them."""

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
    """Sentence pairs as the model wants them: the source, the target so far, and the token that comes next."""

    targets: ClassVar = {"next_BT": PAD_ID}
    source_BS: Tensor
    target_BT: Tensor
    next_BT: Tensor
    is_padding_BS: Tensor | None = None
    """Of the source; None: there is none."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        return given(self.source_BS, self.target_BT, self.is_padding_BS)


class Pairs:
    """The sentence pairs of some corpora.

    Args:
        corpora: the corpora, each with its weight: how often an epoch holds each of its sentences; a fraction holds
            that share of them, drawn anew each epoch.
    """

    def __init__(self, corpora: Sequence[tuple[Corpus, float]], seed: int) -> None:
        self.corpora, self.seed = corpora, seed
        self.first = np.cumsum([0, *(len(corpus) for corpus, _ in corpora)])
        # both sides get one more token: the end of the source, and the beginning or the end of the target
        sides = [np.concatenate([corpus.lengths(side) for corpus, _ in corpora]) + 1 for side in SIDES]
        self.lengths: Lengths = np.stack(sides, axis=1)
        if not len(self.lengths):
            raise RegardError("no sentence pairs are left; see the counts of dropped pairs")

    @property
    def max_length(self) -> int:
        """The tokens of the longest sentence."""
        return int(self.lengths.max())

    def epoch(self, number: int) -> "PairsEpoch":
        """The pairs of an epoch."""
        rng = np.random.default_rng([self.seed, number])
        drawn = []
        for (corpus, weight), first in zip(self.corpora, self.first, strict=False):
            whole, part = divmod(weight, 1)
            drawn += [np.arange(len(corpus)) + first] * int(whole)
            least = min(1, len(corpus)) if weight < 1 else 0  # however small its weight, some of it comes
            drawn.append(rng.permutation(len(corpus))[: max(least, round(part * len(corpus)))] + first)
        return PairsEpoch(self, np.concatenate(drawn))


@dataclass(frozen=True)
class PairsEpoch:
    """Some of the pairs, in some order; one may come several times."""

    pairs: Pairs
    drawn: Indices

    @property
    def lengths(self) -> Lengths:
        """The tokens of each source and target."""
        return self.pairs.lengths[self.drawn]

    def fetch(self, indices: Indices) -> PairBatch:
        """The pairs of these numbers."""
        chosen, first = self.drawn[indices], self.pairs.first
        which = np.searchsorted(first, chosen, side="right") - 1
        found = [(self.pairs.corpora[w][0], i) for w, i in zip(which, chosen - first[which], strict=True)]
        return pair_batch(*([corpus.sentence(side, i) for corpus, i in found] for side in SIDES))


def pair_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> PairBatch:
    """Marks beginnings and ends, and pads to the longest."""
    source_BS, is_padding_BS = source_batch(sources)
    return PairBatch(source_BS, pad(targets, PAD_ID, before=BEGIN), pad(targets, PAD_ID, after=END), is_padding_BS)


def source_batch(sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor | None]:
    """Sources as the model reads them, each with its end, and where they are filled up."""
    return pad(sources, PAD_ID, after=END), padding([len(source) + 1 for source in sources])
