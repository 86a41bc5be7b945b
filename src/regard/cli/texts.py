"""The texts that a verb reads: arguments, or lines of standard input."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

CHUNK_SIZE = 1024  # lines of standard input


def given(texts: Sequence[str] | None = None) -> Iterator[str]:
    """The texts on the command line; if there are none, the lines of standard input as they arrive."""
    from regard.data.text import decoded

    return iter(texts) if texts else decoded(sys.stdin.buffer, "standard input")


def chunks(texts: Sequence[str] | None) -> Iterator[list[str]]:
    """The same texts in lists of at most `CHUNK_SIZE`."""
    some = given(texts)
    while chunk := list(islice(some, CHUNK_SIZE)):
        yield chunk
