"""Memory that is kept: large blocks are not given back to the system after each use. And how much it was.

By default the C library does give them back, and gets new ones, page by page, at the next step: tens of thousands of
page faults a step, for the same memory again and again.
"""

import ctypes
import resource
import sys

import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them


def keep_memory() -> None:
    """Asks glibc to keep blocks of up to a gigabyte; elsewhere, does nothing."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(MMAP_THRESHOLD, 1 << 30)
    mallopt(TRIM_THRESHOLD, (1 << 31) - 1)


def peak(device: torch.device) -> int:
    """The most bytes that this process has used so far: of a graphics card, if it computes there."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
