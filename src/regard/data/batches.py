"""Batches of about the same number of tokens with little padding; their order is seeded and resumable at any batch.

The examples of an epoch are sorted by length, with ties in random order, and split into batches of at most `tokens`
tokens. Then the batches are shuffled. All processes form the same batches, and each takes its shard of every batch.
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
"""The target index that the loss ignores."""
BATCH_TOKENS = 1024  # per forward pass, so that activations stay in a CPU's cache from layer to layer


@dataclass(frozen=True)
class Batch:
    """Examples as tensors, one per row. Subclasses name the tensors; only a padding mask may be None."""

    targets: ClassVar[Mapping[str, float]] = {}
    """The tensors that hold targets, each with the value that the loss ignores."""

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        raise NotImplementedError

    def to(self, device: torch.device) -> Self:
        """The batch on another device."""
        return replace(self, **{name: tensor.to(device) for name, tensor in self.tensors().items()})

    def share(self, rank: int, world: int) -> Self:
        """The shard for one of several processes.

        If there are fewer examples than processes, the others get an example whose targets are all ignored.
        """
        tensors = self.tensors()
        if rank < len(self):
            return replace(self, **{name: tensor[rank::world] for name, tensor in tensors.items()})
        ignored = {name: torch.full_like(tensors[name][:1], number) for name, number in self.targets.items()}
        return replace(self, **{name: tensor[:1] for name, tensor in tensors.items()} | ignored)

    def __len__(self) -> int:
        return len(next(iter(self.tensors().values())))

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name, without those that are None."""
        return {name: tensor for name, tensor in vars(self).items() if tensor is not None}


B = TypeVar("B", bound=Batch)
B_co = TypeVar("B_co", bound=Batch, covariant=True)


class Epoch(Protocol[B_co]):
    """The examples of an epoch, by index."""

    @property
    def lengths(self) -> Lengths:
        """The number of tokens of each example, one column for each of its sequences."""
        ...

    def fetch(self, indices: Indices) -> B_co:
        """The examples with these indices."""
        ...


class Examples(Protocol[B_co]):
    """A dataset: gives the examples of each epoch."""

    @property
    def max_length(self) -> int:
        """The length of the longest sequence in tokens; 0 if there are no examples."""
        ...

    def epoch(self, number: int) -> Epoch[B_co]:
        """The examples of an epoch; the same number always gives the same examples."""
        ...


class SameEachEpoch:
    """A dataset whose epochs all hold the same examples."""

    lengths: Lengths

    @property
    def max_length(self) -> int:
        """The length of the longest example in tokens."""
        return int(self.lengths.max())

    def epoch(self, _number: int) -> Self:
        """The same examples for every epoch."""
        return self


@dataclass(frozen=True)
class Position:
    """The position of the next batch."""

    epoch: int = 0
    batch: int = 0


class Batches(Generic[B]):
    """The batches of a dataset, epoch after epoch, from a position that can be set.

    Args:
        tokens: maximum number of tokens of a batch, padding included, counted for each sequence column.
        size: maximum number of examples of a batch.
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
        """The batches of an epoch, each as the indices of its examples."""
        return self._epoch(number)[1]

    def _epoch(self, number: int) -> tuple[Epoch[B], list[Indices]]:
        if self._planned is None or self._planned[0] != number:
            epoch = self.examples.epoch(number)
            self._planned = number, epoch, self._split(epoch.lengths, np.random.default_rng([self.seed, number]))
        return self._planned[1:]

    def _split(self, lengths: Lengths, rng: np.random.Generator) -> list[Indices]:
        order = rng.permutation(len(lengths))
        order = order[np.lexsort(lengths[order].T)]
        max_size = len(order) if self.size is None else self.size
        batches, begin, widest = [], 0, 0
        for i, length in enumerate(lengths[order].max(1).tolist()):
            widest = max(widest, length)
            if widest * (i + 1 - begin) > self.tokens or i - begin == max_size:
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


def pad(
    sentences: Sequence[Sequence[int]], padding_value: int, before: int | None = None, after: int | None = None
) -> Tensor:
    """Sequences of different lengths as one padded tensor, each with an optional token before and after it."""
    offset = before is not None
    extra = offset + (after is not None)
    padded_BT = np.full((len(sentences), max(map(len, sentences), default=0) + extra), padding_value, np.int64)
    if before is not None:
        padded_BT[:, 0] = before
    for row, sentence in zip(padded_BT, sentences, strict=True):
        row[offset : offset + len(sentence)] = sentence
        if after is not None:
            row[offset + len(sentence)] = after
    return torch.from_numpy(padded_BT)


def padding(lengths: Sequence[int]) -> Tensor | None:
    """The mask is_padding_BT for sequences of these lengths; None if there is no padding."""
    max_length = max(lengths, default=0)
    if min(lengths, default=0) == max_length:
        return None
    return torch.arange(max_length) >= torch.tensor(lengths)[:, None]


def count_tokens(tokens_BT: Tensor, is_padding_BT: Tensor | None) -> int:
    """The number of tokens that are not padding."""
    return tokens_BT.numel() - (0 if is_padding_BT is None else int(is_padding_BT.sum()))


def given(*inputs: Tensor | None) -> tuple[Tensor, ...]:
    """The inputs without None; only the padding mask, which comes last, may be None."""
    return tuple(x for x in inputs if x is not None)


def in_batches(lengths: Sequence[int], tokens: int, with_empty: bool = False) -> Iterable[list[int]]:
    """Indices of sentences of similar length, longest first, in batches of one sentence or at most `tokens` tokens."""
    order = sorted((i for i, length in enumerate(lengths) if length or with_empty), key=lambda i: -lengths[i])
    batch: list[int] = []
    for i in order:
        if batch and (lengths[batch[0]] + 1) * (len(batch) + 1) > tokens:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
