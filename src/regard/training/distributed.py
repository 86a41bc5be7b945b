"""Several processes, on one machine or many, that train as one. A single process is a group of one.

Every process holds the whole model and its share of each batch; the gradients are summed. `torchrun` starts the
processes and tells each its rank.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from torch import distributed as dist


class Group:
    """The processes that train together."""

    def __init__(self) -> None:
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        if self.world > 1 and not dist.is_initialized():
            dist.init_process_group("gloo")

    @property
    def is_first(self) -> bool:
        """The first process is the one that writes and reports."""
        return self.rank == 0

    @contextmanager
    def one_after_the_other(self) -> Iterator[None]:
        """The first process goes first, so that the others find on disk what it has made."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def wait(self) -> None:
        """Until all are here."""
        if self.world > 1:
            dist.barrier()

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replaces tensors by their sums over all processes, in one exchange for each dtype."""
        if self.world == 1:
            return
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):  # not a set: its order differs by process
            chosen = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.flatten() for tensor in chosen])
            dist.all_reduce(flat)
            for tensor, part in zip(chosen, flat.split([tensor.numel() for tensor in chosen]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def from_first(self, values: Sequence[float]) -> list[float]:
        """The numbers that the first process has."""
        if self.world == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(tensor, src=0)
        return tensor.tolist()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, which must be of one shape."""
        if self.world == 1:
            return [tensor]
        found = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(found, tensor)
        return found
