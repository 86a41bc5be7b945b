"""All uses of torch's private API, which a new version of torch may change without notice.

Each is used because the public API is slower, takes more memory, or does not exist. The tests compare the results with
those of the public API.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

CPU_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""The kernel behind `scaled_dot_product_attention` on a CPU; torch's FLOP counter has no formula for it."""
CPU_ATTENTION_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
"""The gradient of `CPU_ATTENTION`, which torch's FLOP counter does not count either."""


def softmax_backward(gradient: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores from that of `weights`, their softmax over the last dimension.

    This is one kernel; with public functions it takes three, and two more tensors of that size.
    """
    return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)


def without_dispatch_modes() -> AbstractContextManager[Any]:
    """A context in which no dispatch mode is active; torch has no public way to suspend a mode."""
    return _disable_current_modes()


def has_forward_hooks(module: nn.Module) -> bool:
    """Whether the module has forward hooks; the public API can register and remove hooks, but not list them."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
