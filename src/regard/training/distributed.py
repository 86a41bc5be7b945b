"""Several processes, on one machine or many, that train as one. A single process is a group of one.

Every process holds the whole model and its share of each batch; the gradients are summed. Or, sharded, each holds a
part of the weights, and a layer's are brought together when it is its turn. `torchrun` starts the processes and tells
each its rank.
"""

import atexit
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, nn
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method
from torch.distributed.tensor import DTensor, distribute_tensor

from regard.blocks.repeated import layers
from regard.errors import RegardError
from regard.training.device import Device


class Group:
    """The processes that train together."""

    def __init__(self, device: Device) -> None:
        self.device = device.torch
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        if self.device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        if "WORLD_SIZE" in os.environ and not dist.is_initialized():
            # numbers on a graphics card go from card to card, the others over the network
            backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            # the others wait while the first reads a large corpus
            dist.init_process_group(backend, timeout=timedelta(days=1))
            atexit.register(_leave)

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

    def shard(self, model: nn.Module) -> None:
        """Leaves each process a part of every weight; layers get theirs together when they run."""
        if not dist.is_initialized():
            raise RegardError("train.shard = true needs processes to share with; start with torchrun")
        mesh = init_device_mesh(self.device.type, (self.world,))
        for layer in layers(model):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if hasattr(model, "hidden"):
            register_fsdp_forward_method(model, "hidden")
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # sums, because the loss is divided by all tokens already

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """For the first process, tensors on the CPU, with their parts brought together; for the others nothing."""
        result = {}
        for name, tensor in tensors.items():
            full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            if self.is_first:
                result[name] = full.detach().cpu()
        return result

    @torch.no_grad()
    def put(self, whole: Tensor, own: Tensor) -> None:
        """Copies a whole tensor, or the part of it that this process holds, into `own`."""
        if isinstance(own, DTensor):
            own.copy_(distribute_tensor(whole.to(self.device), own.device_mesh, own.placements, src_data_rank=None))
        else:
            own.copy_(whole)


def _leave() -> None:
    """Parts from the others as Python ends."""
    # torch's threads let go of the last tensors only now; one that did so later would abort the process
    time.sleep(0.5)
    if dist.is_initialized():
        dist.destroy_process_group()
