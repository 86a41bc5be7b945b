"""Writing text vectors to files, and parsing the layers to take them from."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from regard.errors import RegardError
from regard.folders import expect_parent

FORMATS = (".npy", ".json", ".parquet")


def parse_layers(text: str, count: int) -> list[int]:
    """Parses layers such as `-4:` or `1,2` of a model with `count` layers; 0 is the embedding layer."""
    every = list(range(count + 1))
    try:
        if ":" not in text:
            return [int(part) for part in text.split(",")]
        bounds = slice(*(int(part) if part else None for part in text.split(":")))
    except (ValueError, TypeError):
        raise RegardError(f"--layers {text}: write numbers such as -1 or 1,2, or a range such as -4:") from None
    if any(bound is not None and not -len(every) <= bound <= len(every) for bound in (bounds.start, bounds.stop)):
        raise RegardError(f"--layers {text}: the model has layers 0 to {count}, or -{count + 1} to -1 from the end")
    if not every[bounds]:
        raise RegardError(f"--layers {text}: the range is empty; the model has layers 0 to {count}")
    return every[bounds]


def expect_format(path: Path) -> None:
    """Raises `RegardError` if vectors cannot be written to this path."""
    if path.suffix not in FORMATS:
        raise RegardError(f"{path}: unknown format; use {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    expect_parent(path)


def write(path: Path, texts: Sequence[str], vectors_ND: Tensor) -> None:
    """Writes vectors in the format of the file extension. Parquet files also contain the texts."""
    expect_format(path)
    if path.suffix == ".npy":
        np.save(path, vectors_ND.numpy())
    elif path.suffix == ".json":
        path.write_text(json.dumps(vectors_ND.tolist()), "utf-8")
    else:
        try:
            from regard.tasks import parquet
        except ImportError:
            raise RegardError(
                f"{path}: Parquet needs pyarrow; pip install 'regard[parquet]', or write to .npy or .json"
            ) from None
        parquet.write(path, texts, vectors_ND.tolist())
