"""Memory of the process: keeping allocated blocks, releasing them, and peak memory.

By default the C library returns large blocks to the system after each use and allocates new ones, page by page, at the
next training step: tens of thousands of page faults per step for the same memory. It keeps small blocks, even those
that were only needed to load a model.
"""

import ctypes
import sys
from contextlib import suppress

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # constants of glibc's malloc.h


def keep_memory() -> None:
    """Makes glibc keep blocks of up to a gigabyte; does nothing with other C libraries."""
    _call("mallopt", MMAP_THRESHOLD, 1 << 30)
    _call("mallopt", TRIM_THRESHOLD, (1 << 31) - 1)


def release_memory() -> None:
    """Makes glibc return all free memory to the system; does nothing with other C libraries."""
    _call("malloc_trim", 0)


def _call(function: str, *numbers: int) -> None:
    with suppress(AttributeError, OSError, TypeError):  # with another C library
        getattr(ctypes.CDLL(None), function)(*numbers)


def peak(device: torch.device) -> int:
    """Peak memory of this process in bytes, on the GPU if `device` is CUDA; 0 if unknown."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
