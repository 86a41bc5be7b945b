"""Batches of about equal work with hardly any padding, in an order that a seed fixes and a position finds again.

An epoch's sentences are sorted by length, with ties in random order, cut into batches of at most so many tokens, and
the batches shuffled. All processes form the same batches and each takes its share of every one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.data.corpus import Corpus
from regard.data.tokenizer import BEGIN, END, PAD

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Sentence pairs as the model wants them: the source, the target so far, and the token that comes next."""

    source_BS: Tensor
    target_BT: Tensor
    next_BT: Tensor

    def to(self, device: torch.device) -> "Batch":
        """The same on another device."""
        return Batch(self.source_BS.to(device), self.target_BT.to(device), self.next_BT.to(device))

    def share(self, rank: int, world: int) -> "Batch":
        """The part of one of several processes.

        Where there are fewer sentences than processes, it is a sentence after which nothing comes, so without a loss.
        """
        if rank < len(self.source_BS):
            return Batch(self.source_BS[rank::world], self.target_BT[rank::world], self.next_BT[rank::world])
        return Batch(self.source_BS[:1], self.target_BT[:1], torch.full_like(self.next_BT[:1], PAD))


@dataclass(frozen=True)
class Position:
    """The place of the next batch."""

    epoch: int = 0
    batch: int = 0


class Batches:
    """The batches of a training corpus, epoch after epoch, from a position that can be set.

    Args:
        corpora: the corpora, each with its weight: how often an epoch holds each of its sentences; a fraction holds
        that
            share of them, drawn anew each epoch.
        tokens: the most tokens of a batch on either side, padding included.
    """

    def __init__(self, corpora: Sequence[tuple[Corpus, float]], tokens: int, seed: int) -> None:
        self.corpora, self.tokens, self.seed = corpora, tokens, seed
        self.position = Position()
        # both sides get one more token: the end of the source, and the beginning or the end of the target
        self.lengths = {
            side: np.concatenate([corpus.lengths(side) for corpus, _ in corpora]) + 1 for side in ("source", "target")
        }
        self.first = np.cumsum([0, *(len(corpus) for corpus, _ in corpora)])
        longest = max((int(lengths.max(initial=0)) for lengths in self.lengths.values()), default=0)
        if not len(self.lengths["source"]):
            raise ValueError("no sentence pairs are left; see the counts of dropped pairs")
        if longest > tokens:
            raise ValueError(
                f"a sentence of {longest} tokens does not fit a batch of {tokens}; raise train.batch_tokens"
            )
        self._plan: tuple[int, list[Indices]] = (-1, [])

    def plan(self, epoch: int) -> list[Indices]:
        """The batches of an epoch, each as the numbers of its pairs."""
        if self._plan[0] != epoch:
            chance = np.random.default_rng([self.seed, epoch])
            self._plan = epoch, self._cut(self._drawn(chance), chance)
        return self._plan[1]

    def _drawn(self, chance: np.random.Generator) -> Indices:
        """The numbers of an epoch's pairs, in random order."""
        drawn = []
        for (corpus, weight), first in zip(self.corpora, self.first, strict=False):
            whole, part = divmod(weight, 1)
            drawn += [np.arange(len(corpus)) + first] * int(whole)
            least = min(1, len(corpus)) if weight < 1 else 0  # however small its weight, some of it comes
            drawn.append(chance.permutation(len(corpus))[: max(least, round(part * len(corpus)))] + first)
        return chance.permutation(np.concatenate(drawn))

    def _cut(self, order: Indices, chance: np.random.Generator) -> list[Indices]:
        source, target = (self.lengths[side][order] for side in ("source", "target"))
        by_length = np.lexsort((source, target))
        order, source, target = order[by_length], source[by_length], target[by_length]
        batches, begin, widest = [], 0, 0
        for i, length in enumerate(np.maximum(source, target).tolist()):
            widest = max(widest, length)
            if widest * (i + 1 - begin) > self.tokens:
                batches.append(order[begin:i])
                begin, widest = i, length
        batches.append(order[begin:])
        return [batches[i] for i in chance.permutation(len(batches))]

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        plan = self.plan(self.position.epoch)
        batch = self.fetch(plan[self.position.batch])
        self.position = replace(self.position, batch=self.position.batch + 1)
        if self.position.batch == len(plan):
            self.position = Position(self.position.epoch + 1)
        return batch

    def fetch(self, indices: Indices) -> Batch:
        """The pairs of these numbers."""
        which = np.searchsorted(self.first, indices, side="right") - 1
        found = [(self.corpora[w][0], i) for w, i in zip(which, indices - self.first[which], strict=True)]
        return make_batch(*([corpus.sentence(side, i) for corpus, i in found] for side in ("source", "target")))


def make_batch(sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Batch:
    """Marks beginnings and ends, and pads to the longest."""
    return Batch(pad(sources, after=END), pad(targets, before=BEGIN), pad(targets, after=END))


def pad(sentences: Sequence[Sequence[int]], before: int | None = None, after: int | None = None) -> Tensor:
    """Sentences of different lengths as one tensor, each with a token before or after it."""
    offset = before is not None
    extra = offset + (after is not None)
    padded_BT = np.full((len(sentences), max(map(len, sentences), default=0) + extra), PAD, np.int64)
    if before is not None:
        padded_BT[:, 0] = before
    for row, sentence in zip(padded_BT, sentences, strict=True):
        row[offset : offset + len(sentence)] = sentence
        if after is not None:
            row[offset + len(sentence)] = after
    return torch.from_numpy(padded_BT)
