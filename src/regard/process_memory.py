"""Memory that is kept, memory that is given back, and how much it was.

By default the C library gives large blocks back to the system after each use, and gets new ones, page by page, at the
next step of a training: tens of thousands of page faults a step, for the same memory again and again. Small ones it
keeps, also those that were only needed to open a model.
"""

import ctypes
import sys
from contextlib import suppress

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them


def keep_memory() -> None:
    """Asks glibc to keep blocks of up to a gigabyte; elsewhere, does nothing."""
    _ask("mallopt", MMAP_THRESHOLD, 1 << 30)
    _ask("mallopt", TRIM_THRESHOLD, (1 << 31) - 1)


def release_memory() -> None:
    """Asks glibc to give back all that is free; elsewhere, does nothing."""
    _ask("malloc_trim", 0)


def _ask(function: str, *numbers: int) -> None:
    with suppress(AttributeError, OSError, TypeError):  # where the C library is another
        getattr(ctypes.CDLL(None), function)(*numbers)


def peak(device: torch.device) -> int:
    """The most bytes that this process has used so far: of a CUDA card, if it computes there; 0: not known."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
