"""Checks that local variables of Regard with a shape suffix, such as x_BTD, have that shape."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from torch import Tensor

import regard

SOURCE = str(Path(regard.__file__).parent)
SUFFIX = re.compile(r"_([A-Z0-9]*[A-Z][A-Z0-9]*|1)$")
"""A letter is a dimension that has one size in a function; a digit is a dimension of that size."""


@contextmanager
def shapes_checked() -> Iterator[set[str]]:
    """Yields the set of checked names; fails at the end if a name has the wrong suffix."""
    seen: set[str] = set()
    wrong: list[str] = []

    def on_event(frame: FrameType, event: str, _argument: Any) -> None:
        if event != "return" or not frame.f_code.co_filename.startswith(SOURCE):
            return
        sizes: dict[str, int] = {}
        for name, value in frame.f_locals.items():
            if not (suffix := SUFFIX.search(name)) or not isinstance(value, Tensor):
                continue
            seen.add(name)
            where = f"{Path(frame.f_code.co_filename).name}, {frame.f_code.co_name}: {name} is {tuple(value.shape)}"
            if value.dim() != len(suffix[1]):
                wrong.append(where)
                continue
            for letter, size in zip(suffix[1], value.shape, strict=True):
                known = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
                if known != size:
                    wrong.append(f"{where}, but {letter} is {known}")

    sys.setprofile(on_event)
    try:
        yield seen
    finally:
        sys.setprofile(None)
    assert not wrong, "\n".join(dict.fromkeys(wrong))
