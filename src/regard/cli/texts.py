"""Texts that a verb is given: arguments, or lines of standard input."""

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

AT_ONCE = 1024  # lines of standard input


def given(texts: Sequence[str] | None = None) -> Iterator[str]:
    """The texts on the command line; without any, the lines of standard input as they come."""
    from regard.data.text import decoded

    return iter(texts) if texts else decoded(sys.stdin.buffer, "standard input")


def chunks(texts: Sequence[str] | None) -> Iterator[list[str]]:
    """The same, many at a time."""
    some = given(texts)
    while chunk := list(islice(some, AT_ONCE)):
        yield chunk
