"""Batches of about equal work with hardly any padding, in an order that a seed fixes and a position finds again.

An epoch's examples are sorted by length, with ties in random order, cut into batches of at most so many tokens, and the
batches shuffled. All processes form the same batches and each takes its share of every one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.errors import RegardError

Indices = npt.NDArray[np.int64]
Lengths = npt.NDArray[np.int32]
IGNORED = -100
"""A target that is none: nothing is asked there."""
BATCH_TOKENS = 1024  # to read at a time, so that they stay in a CPU's cache on their way from layer to layer


@dataclass(frozen=True)
class Batch:
    """Examples as tensors, one a row. Subclasses name the tensors; of those, a mask of padding may be None."""

    targets: ClassVar[Mapping[str, float]] = {}
    """The tensors that hold what the model should say, and the number in them that means: nothing is asked."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """What the model is called with."""
        raise NotImplementedError

    def to(self, device: torch.device) -> Self:
        """The same on another device."""
        return replace(self, **{name: tensor.to(device) for name, tensor in self.tensors().items()})

    def share(self, rank: int, world: int) -> Self:
        """The part of one of several processes.

        Where there are fewer examples than processes, it is an example of which nothing is asked, so without a loss.
        """
        tensors = self.tensors()
        if rank < len(self):
            return replace(self, **{name: tensor[rank::world] for name, tensor in tensors.items()})
        nothing = {name: torch.full_like(tensors[name][:1], number) for name, number in self.targets.items()}
        return replace(self, **{name: tensor[:1] for name, tensor in tensors.items()} | nothing)

    def __len__(self) -> int:
        return len(next(iter(self.tensors().values())))

    def tensors(self) -> dict[str, Tensor]:
        """By name, those that are there."""
        return {name: tensor for name, tensor in vars(self).items() if tensor is not None}


B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)


class Epoch(Protocol[B_co]):
    """The examples that an epoch holds, by number."""

    @property
    def lengths(self) -> Lengths:
        """The tokens of each example, one column for each of its sequences."""
        ...

    def fetch(self, indices: Indices) -> B_co:
        """The examples of these numbers."""
        ...


class Examples(Protocol[B_co]):
    """Where batches come from."""

    @property
    def max_length(self) -> int:
        """The tokens of the longest sequence; 0: there are no examples."""
        ...

    def epoch(self, number: int) -> Epoch[B_co]:
        """The examples of an epoch: always the same ones for the same number."""
        ...


class SameEachEpoch:
    """Examples that every epoch holds all of, as they are."""

    lengths: Lengths

    @property
    def max_length(self) -> int:
        """The tokens of the longest example."""
        return int(self.lengths.max())

    def epoch(self, _number: int) -> Self:
        """Every epoch is the same."""
        return self


@dataclass(frozen=True)
class Position:
    """The place of the next batch."""

    epoch: int = 0
    batch: int = 0


class Batches(Generic[B]):
    """The batches of some examples, epoch after epoch, from a position that can be set.

    Args:
        tokens: the most tokens of a batch in each sequence, padding included.
        size: the most examples of a batch.
    """

    def __init__(self, examples: Examples[B], tokens: int, seed: int, size: int | None = None) -> None:
        self.examples, self.tokens, self.seed, self.size = examples, tokens, seed, size
        self.position = Position()
        if examples.max_length > tokens:
            raise RegardError(
                f"a sentence of {examples.max_length} tokens does not fit a batch of {tokens}; raise train.batch_tokens"
            )
        self._planned: tuple[int, Epoch[B], list[Indices]] | None = None

    def plan(self, number: int) -> list[Indices]:
        """The batches of an epoch, each as the numbers of its examples."""
        return self._epoch(number)[1]

    def _epoch(self, number: int) -> tuple[Epoch[B], list[Indices]]:
        if self._planned is None or self._planned[0] != number:
            epoch = self.examples.epoch(number)
            self._planned = number, epoch, self._cut(epoch.lengths, np.random.default_rng([self.seed, number]))
        return self._planned[1:]

    def _cut(self, lengths: Lengths, rng: np.random.Generator) -> list[Indices]:
        order = rng.permutation(len(lengths))
        order = order[np.lexsort(lengths[order].T)]
        most = len(order) if self.size is None else self.size
        batches, begin, widest = [], 0, 0
        for i, length in enumerate(lengths[order].max(1).tolist()):
            widest = max(widest, length)
            if widest * (i + 1 - begin) > self.tokens or i - begin == most:
                batches.append(order[begin:i])
                begin, widest = i, length
        batches.append(order[begin:])
        return [batches[i] for i in rng.permutation(len(batches))]

    def epoch(self, number: int) -> Iterator[B]:
        """All batches of an epoch."""
        epoch, plan = self._epoch(number)
        return (epoch.fetch(indices) for indices in plan)

    def __iter__(self) -> Iterator[B]:
        return self

    def __next__(self) -> B:
        epoch, plan = self._epoch(self.position.epoch)
        batch = epoch.fetch(plan[self.position.batch])
        self.position = replace(self.position, batch=self.position.batch + 1)
        if self.position.batch == len(plan):
            self.position = Position(self.position.epoch + 1)
        return batch


def pad(sentences: Sequence[Sequence[int]], filler: int, before: int | None = None, after: int | None = None) -> Tensor:
    """Sentences of different lengths as one tensor, each with a token before or after it."""
    offset = before is not None
    extra = offset + (after is not None)
    padded_BT = np.full((len(sentences), max(map(len, sentences), default=0) + extra), filler, np.int64)
    if before is not None:
        padded_BT[:, 0] = before
    for row, sentence in zip(padded_BT, sentences, strict=True):
        row[offset : offset + len(sentence)] = sentence
        if after is not None:
            row[offset + len(sentence)] = after
    return torch.from_numpy(padded_BT)


def padding(lengths: Sequence[int]) -> Tensor | None:
    """is_padding_BT of sentences of so many tokens, filled up to the longest; None where there is nothing to fill."""
    max_length = max(lengths, default=0)
    if min(lengths, default=0) == max_length:
        return None
    return torch.arange(max_length) >= torch.tensor(lengths)[:, None]


def count_tokens(tokens_BT: Tensor, is_padding_BT: Tensor | None) -> int:
    """How many tokens are not padding."""
    return tokens_BT.numel() - (0 if is_padding_BT is None else int(is_padding_BT.sum()))


def given(*inputs: Tensor | None) -> tuple[Tensor, ...]:
    """The inputs that are there; a mask that would hide nothing comes last, and is left out."""
    return tuple(x for x in inputs if x is not None)


def in_batches(lengths: Sequence[int], tokens: int, with_empty: bool = False) -> Iterable[list[int]]:
    """Numbers of sentences of like length, the longest first, in batches of at most so many tokens or one sentence."""
    order = sorted((i for i, length in enumerate(lengths) if length or with_empty), key=lambda i: -lengths[i])
    batch: list[int] = []
    for i in order:
        if batch and (lengths[batch[0]] + 1) * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
