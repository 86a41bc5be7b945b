"""Matrix products: how many floating-point operations a model's take, and how many the machine can do in a second.

What training is worth of a machine is the ratio of the two, the model-FLOPs utilisation (Chowdhery et al. 2022): most
of a Transformer's work are matrix products, and nothing makes it faster than they are.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

aten = torch.ops.aten
SHAPES = {"cpu": (2048, 256, 1024)}  # of a layer's product in a model that a processor trains
LARGE = (4096, 4096, 4096)  # smaller ones leave a graphics card idle
ROUNDS, SECONDS = 20, 0.5  # after which a measurement ends, whichever comes first


class Count(TorchDispatchMode):
    """Counts the floating-point operations of the matrix products inside, backward passes included."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Does what was asked for, and counts it."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        formula = FORMULAS.get(func.overloadpacket)
        if formula:
            self.flops += formula(*args, **kwargs, out_val=out)
        return out


def _recurrent(x_TBD: Any, of_x: Any, of_state: Any, *_: Any, **__: Any) -> int:
    return 2 * x_TBD.shape[:2].numel() * (of_x.numel() + of_state.numel())


def _recurrent_backward(*args: Any, **_: Any) -> int:
    return 2 * _recurrent(*args)


FORMULAS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    # what torch's own list leaves out: products that are added in place, attention and LSTMs on the CPU
    aten.addmm_: flop_registry[aten.addmm],
    aten.baddbmm_: flop_registry[aten.baddbmm],
    aten._scaled_dot_product_flash_attention_for_cpu: flop_registry[aten._scaled_dot_product_flash_attention],
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        flop_registry[aten._scaled_dot_product_flash_attention_backward]
    ),
    aten.mkldnn_rnn_layer: _recurrent,
    aten.mkldnn_rnn_layer_backward: _recurrent_backward,
}
"""By the name of an operation, how many operations on numbers it takes."""


def limit(device: torch.device, dtype: torch.dtype) -> float:
    """The floating-point operations a second of matrix products with the threads in use: the best of several."""
    return _limit(device, dtype, torch.get_num_threads())


@cache
def _limit(device: torch.device, dtype: torch.dtype, _threads: int) -> float:
    rows, inner, columns = SHAPES.get(device.type, LARGE)
    chance = torch.Generator(device)  # of its own, so that training draws the same numbers with and without this
    a, b = (
        torch.rand(*shape, generator=chance, dtype=dtype, device=device) for shape in ((rows, inner), (inner, columns))
    )
    return 2 * rows * inner * columns / best_time(lambda: (a @ b)[0, 0].item())  # a number to wait for


def best_time(run: Callable[[], object]) -> float:
    """The shortest of several times that something takes, in seconds."""
    run()  # once for the warm-up
    seconds: list[float] = []
    while len(seconds) < ROUNDS and sum(seconds) < SECONDS:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
