"""Memory that is kept: large blocks are not given back to the system after each use.

By default the C library does give them back, and gets new ones, page by page, at the next step: tens of thousands of
page faults a step, for the same memory again and again.
"""

import ctypes

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # as glibc's malloc.h numbers them


def keep_memory() -> None:
    """Asks glibc to keep blocks of up to a gigabyte; elsewhere, does nothing."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return
    mallopt(MMAP_THRESHOLD, 1 << 30)
    mallopt(TRIM_THRESHOLD, (1 << 31) - 1)
