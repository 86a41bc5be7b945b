"""Vectors of texts in files, and the layers that they are read from."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from torch import Tensor

from regard.errors import RegardError
from regard.folders import expect_parent

FORMATS = (".npy", ".json", ".parquet")


def parse_layers(text: str, count: int) -> list[int]:
    """The layers of a model of so many that a text such as `-4:` or `1,2` names; 0 is what goes into the first."""
    every = list(range(count + 1))
    try:
        if ":" in text:
            return every[slice(*(int(part) if part else None for part in text.split(":")))]
        return [int(part) for part in text.split(",")]
    except (ValueError, TypeError):
        raise RegardError(f"--layers {text}: write numbers such as -1 or 1,2, or a range such as -4:") from None


def expect_format(path: Path) -> None:
    """Raises `RegardError` unless vectors can be written to a file of that name."""
    if path.suffix not in FORMATS:
        raise RegardError(f"{path}: write to {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    expect_parent(path)


def write(path: Path, texts: Sequence[str], vectors_ND: Tensor) -> None:
    """Writes vectors; the end of the path says in which format. Parquet has the texts beside them."""
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
