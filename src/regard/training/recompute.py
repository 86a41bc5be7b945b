"""Gradient checkpointing (activation recomputation): saves memory and costs time (Chen et al. 2016).

The backward pass needs the activations of each layer. Only the input of each layer is stored; the layer runs a second
time in the backward pass, with the same random numbers, so the gradients are bit-identical.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from regard.blocks.repeated import layers
from regard.blocks.torch_private import without_dispatch_modes


def recompute(model: nn.Module) -> None:
    """Turns on gradient checkpointing for all layers of a model."""
    for layer in layers(model):
        contexts = partial(_contexts, layer)
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, context_fn=contexts)


def _contexts(layer: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The contexts of the forward pass of a layer and of its recomputation."""
    return nullcontext(), _again(layer)


@contextmanager
def _again(layer: nn.Module) -> Iterator[None]:
    kept = [(buffer, buffer.clone()) for buffer in layer.buffers()]
    try:
        # recomputation is excluded from the count of FLOPs, as in the definition of MFU
        with without_dispatch_modes():
            yield
    finally:
        # the running means of batch norm were already updated with this batch
        with torch.no_grad():
            for buffer, old in kept:
                if not torch.equal(buffer, old):
                    buffer.copy_(old)
