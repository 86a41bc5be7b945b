"""FLOPs of matrix products: how many a model needs, and how many per second the machine can do.

Their ratio is the model-FLOPs utilisation (MFU; Chowdhery et al. 2022). Most of a Transformer's work is matrix
products, so their speed is an upper bound of the speed of training.
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
SHAPES = {"cpu": (2048, 256, 1024)}  # of a typical matrix product in a model that is trained on a CPU
LARGE = (4096, 4096, 4096)  # smaller products leave a GPU idle
ROUNDS, SECONDS = 20, 0.5  # a measurement ends when it reaches either limit


def _recurrent(x_TBD: Sequence[int], of_x: Sequence[int], of_state: Sequence[int], *_: Any, **__: Any) -> int:
    return 2 * prod(x_TBD[:2]) * (prod(of_x) + prod(of_state))


def _recurrent_backward(*args: Any, **_: Any) -> int:
    return 2 * _recurrent(*args)


FORMULAS: dict[Any, Callable[..., int]] = {
    # missing from torch's own list: in-place addmm and baddbmm, attention and LSTMs on the CPU
    aten.addmm_: lambda _, a, b, **__: mm_flop(a, b),
    aten.baddbmm_: lambda _, a, b, **__: bmm_flop(a, b),
    CPU_ATTENTION: lambda query, key, value, *_, **__: sdpa_flop_count(query, key, value),
    CPU_ATTENTION_BACKWARD: (
        lambda upstream, query, key, value, *_, **__: sdpa_backward_flop_count(upstream, query, key, value)
    ),
    aten.mkldnn_rnn_layer: _recurrent,
    aten.mkldnn_rnn_layer_backward: _recurrent_backward,
}
"""By operation, a function from the shapes of its arguments to its FLOPs."""


class FlopCounter(FlopCounterMode):
    """Context manager that counts the FLOPs of the matrix products inside, backward passes included."""

    def __init__(self) -> None:
        super().__init__(display=False, custom_mapping=FORMULAS)

    @property
    def flops(self) -> int:
        """The total count."""
        return self.get_total_flops()


def limit(device: torch.device, dtype: torch.dtype) -> float:
    """The measured peak FLOP/s of matrix products with the current number of threads, the best of several runs."""
    return _limit(device, dtype, torch.get_num_threads())


@cache
def _limit(device: torch.device, dtype: torch.dtype, _threads: int) -> float:
    rows, inner, columns = SHAPES.get(device.type, LARGE)
    rng = torch.Generator(
        device
    )  # a separate generator, because measuring must not change the random numbers of training
    a, b = (
        torch.rand(*shape, generator=rng, dtype=dtype, device=device) for shape in ((rows, inner), (inner, columns))
    )
    return 2 * rows * inner * columns / best_time(lambda: (a @ b)[0, 0].item())  # item() waits for the result


def best_time(run: Callable[[], object]) -> float:
    """The shortest time in seconds of several runs of a function."""
    run()  # warm-up
    seconds: list[float] = []
    while len(seconds) < ROUNDS and sum(seconds) < SECONDS:
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
