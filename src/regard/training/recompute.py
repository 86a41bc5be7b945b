"""Activations that are computed again: less memory for more time (Chen et al. 2016).

The backward pass needs what each layer computed on the way. Instead of all of it, only what goes into a layer is kept,
and the layer runs a second time when its turn comes, with the same random numbers: gradients are the same to the bit.
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
    """Makes all layers of a model run again in the backward pass."""
    for layer in layers(model):
        contexts = partial(_contexts, layer)
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, context_fn=contexts)


def _contexts(layer: nn.Module) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """Of the first time that a layer runs, and of the second."""
    return nullcontext(), _again(layer)


@contextmanager
def _again(layer: nn.Module) -> Iterator[None]:
    kept = [(buffer, buffer.clone()) for buffer in layer.buffers()]
    try:
        # a second time is no work that the model asks for, so that it does not count as such
        with without_dispatch_modes():
            yield
    finally:
        # the running means of batch norm have seen this batch already
        with torch.no_grad():
            for buffer, old in kept:
                if not torch.equal(buffer, old):
                    buffer.copy_(old)
