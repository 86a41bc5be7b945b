"""Distributed training: several processes, on one machine or many. A single process is a group of one.

In data parallel training, every process holds the whole model and a part of each batch, and the gradients are summed.
In sharded training (FSDP), each process holds a part of the weights, and a layer's weights are gathered when it runs.
`torchrun` starts the processes and gives each its rank.
"""

import atexit
import ctypes
import os
import signal
import sys
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

PROMPT = timedelta(minutes=5)
"""Timeout when all processes work: while they find each other, and add up gradients."""
PATIENT = timedelta(days=1)
"""Timeout while the others wait for the first process, which may read a large corpus or validate."""
PR_SET_PDEATHSIG = 1  # a constant of Linux's prctl.h


def rank() -> int:
    """The number of this process among those that train together; 0 is the first, or the only one."""
    return int(os.environ.get("RANK", 0))


class Group:
    """The processes that train together."""

    def __init__(self, device: Device) -> None:
        self.device = device.torch
        self.rank, self.world = rank(), int(os.environ.get("WORLD_SIZE", 1))
        self.patient: dist.ProcessGroup | None = None
        if self.device.type == "cuda":
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
        if "WORLD_SIZE" in os.environ and not dist.is_initialized():
            # tensors on GPUs are exchanged by NCCL, those on the CPU by Gloo
            backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            _end_with_parent()
            dist.init_process_group(backend, timeout=PROMPT)
            atexit.register(_leave)
        if self.world > 1:
            self.patient = dist.new_group(backend="gloo", timeout=PATIENT)

    @property
    def is_first(self) -> bool:
        """Whether this is the first process, the one that writes and reports."""
        return self.rank == 0

    @contextmanager
    def first_process_first(self) -> Iterator[None]:
        """Runs the block in the first process, then in the others, which can read the files it has written."""
        if not self.is_first:
            self.wait()
        yield
        if self.is_first:
            self.wait()

    def wait(self) -> None:
        """Waits until all processes have arrived here."""
        if self.world > 1:
            dist.barrier(self.patient)

    def sum_(self, tensors: Sequence[Tensor]) -> None:
        """Replaces tensors by their sums over all processes, with one all-reduce per dtype."""
        if self.world == 1:
            return
        for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):  # not a set: its order differs by process
            chosen = [tensor for tensor in tensors if tensor.dtype == dtype]
            flat = torch.cat([tensor.flatten() for tensor in chosen])
            dist.all_reduce(flat)
            for tensor, part in zip(chosen, flat.split([tensor.numel() for tensor in chosen]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def from_first(self, values: Sequence[float]) -> list[float]:
        """The values of the first process, broadcast to all."""
        if self.world == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.broadcast(tensor, src=0, group=self.patient)
        return tensor.tolist()

    def maxima(self, values: Sequence[float]) -> list[float]:
        """The maximum of each value over all processes."""
        if self.world == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self.patient)
        return tensor.tolist()

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """The tensors of all processes, which must have the same shape."""
        if self.world == 1:
            return [tensor]
        found = [torch.empty_like(tensor) for _ in range(self.world)]
        dist.all_gather(found, tensor)
        return found

    def shard(self, model: nn.Module) -> None:
        """Shards the model (FSDP): each process keeps a part of every weight; layers gather theirs when they run."""
        if not dist.is_initialized():
            raise RegardError("train.shard = true needs several processes; start them with torchrun")
        mesh = init_device_mesh(self.device.type, (self.world,))
        for layer in layers(model):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        if hasattr(model, "hidden"):
            register_fsdp_forward_method(model, "hidden")
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_gradient_divide_factor(1.0)  # sums: the loss is already divided by all tokens

    def whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The full tensors on the CPU, gathered from their shards, in the first process; nothing in the others."""
        result = {}
        for name, tensor in tensors.items():
            full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
            if self.is_first:
                result[name] = full.detach().cpu()
        return result

    @torch.no_grad()
    def put(self, whole: Tensor, own: Tensor) -> None:
        """Copies a full tensor, or the shard of it that this process holds, into `own`."""
        if isinstance(own, DTensor):
            own.copy_(distribute_tensor(whole.to(self.device), own.device_mesh, own.placements, src_data_rank=None))
        else:
            own.copy_(whole)


def _end_with_parent() -> None:
    """On Linux, this process receives SIGTERM when torchrun ends, even by `kill -9`; otherwise it would not stop."""
    if sys.platform == "linux" and "TORCHELASTIC_RUN_ID" in os.environ:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _leave() -> None:
    """Leaves the process group when Python exits."""
    # torch's threads release the last tensors only now; releasing one later would abort the process
    time.sleep(0.5)
    if dist.is_initialized():
        dist.destroy_process_group()
