"""All that is used of torch without being public: a new version of torch may change it without notice.

Each is here because the public way is slower, takes more memory, or does not exist. The tests compare it with the
public way.
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

CPU_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""What `scaled_dot_product_attention` runs on a CPU; torch's count of operations has no formula for it."""
CPU_ATTENTION_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
"""The gradient of `CPU_ATTENTION`, which torch's count of operations leaves out, too."""


def softmax_backward(gradient: Tensor, weights: Tensor) -> Tensor:
    """The gradient of the scores from that of `weights`, their softmax over the last dimension.

    One kernel does it; in public functions it is three, with two more tensors of that size.
    """
    return torch._softmax_backward_data(gradient, weights, -1, weights.dtype)


def without_dispatch_modes() -> AbstractContextManager[Any]:
    """Inside, no dispatch mode sees what is computed; a mode has no public way to be suspended."""
    return _disable_current_modes()


def has_forward_hooks(module: nn.Module) -> bool:
    """Whether a hook would run before or after the module; hooks can be registered and removed, but not listed."""
    return bool(module._forward_hooks or module._forward_pre_hooks)
