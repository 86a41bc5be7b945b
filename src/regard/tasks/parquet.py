"""Vectors in a Parquet file."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow
from pyarrow import parquet


def write(path: Path, texts: Sequence[str], vectors: Sequence[Sequence[float]]) -> None:
    """Writes a table with the columns `text` and `vector`."""
    parquet.write_table(pyarrow.table({"text": list(texts), "vector": list(vectors)}), path)
