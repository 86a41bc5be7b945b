"""Matrix products: how many floating-point operations a model's take, and how many the machine can do in a second.

What training is worth of a machine is the ratio of the two, the model-FLOPs utilisation (Chowdhery et al. 2022): most
of a Transformer's work are matrix products, and nothing makes it faster than they are.
"""

import time
from collections.abc import Callable, Sequence
from functools import cache
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode, bmm_flop, mm_flop, sdpa_backward_flop_count, sdpa_flop_count

from regard.blocks.torch_private import CPU_ATTENTION, CPU_ATTENTION_BACKWARD

aten = torch.ops.aten
SHAPES = {"cpu": (2048, 256, 1024)}  # of a layer's product in a model that a processor trains
LARGE = (4096, 4096, 4096)  # smaller ones leave a graphics card idle
ROUNDS, SECONDS = 20, 0.5  # after which a measurement ends, whichever comes first


def _recurrent(x_TBD: Sequence[int], of_x: Sequence[int], of_state: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * prod(x_TBD[:2]) * (prod(of_x) + prod(of_state))


def _recurrent_backward(*args: Any, **_: Any) -> int:
    return 2 * _recurrent(*args)


FORMULAS: dict[Any, Callable[..., int]] = {
    # what torch's own list leaves out: products that are added in place, attention and LSTMs on the CPU
    aten.addmm_: lambda _, a, b, **__: mm_flop(a, b),
    aten.baddbmm_: lambda _, a, b, **__: bmm_flop(a, b),
    CPU_ATTENTION: lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value),
    CPU_ATTENTION_BACKWARD: (
        lambda upstream, query, key, value, *_, **__: sdpa_backward_flop_count(upstream, query, key, value)
    ),
    aten.mkldnn_rnn_layer: _recurrent,
    aten.mkldnn_rnn_layer_backward: _recurrent_backward,
}
"""By operation, how many floating-point operations it takes, given the shapes of its arguments."""


class FlopCounter(FlopCounterMode):
    """Counts the floating-point operations of the matrix products inside, backward passes included."""

    def __init__(self) -> None:
        super().__init__(display=False, custom_mapping=FORMULAS)

    @property
    def flops(self) -> int:
        """All of them."""
        return self.get_total_flops()


def limit(device: torch.device, dtype: torch.dtype) -> float:
    """The floating-point operations a second of matrix products with the threads in use: the best of several."""
    return _limit(device, dtype, torch.get_num_threads())


@cache
def _limit(device: torch.device, dtype: torch.dtype, _threads: int) -> float:
    rows, inner, columns = SHAPES.get(device.type, LARGE)
    rng = torch.Generator(device)  # of its own, so that training draws the same numbers with and without this
    a, b = (
        torch.rand(*shape, generator=rng, dtype=dtype, device=device) for shape in ((rows, inner), (inner, columns))
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
