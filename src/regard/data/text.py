"""Finds text files and reads them line by line, plain or gzipped; errors name the damaged line."""

import glob
import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from regard.config import FilePath
from regard.counts import counted
from regard.errors import RegardError


def _listed(value: Any) -> Any:
    """Accepts a single name instead of a list."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[
    tuple[FilePath, ...], Field(min_length=1), BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...])
]


def found(names: Iterable[str]) -> list[Path]:
    """The files that match these names, sorted and without duplicates."""
    result: dict[Path, Path] = {}
    for name in names:
        if Path(name).is_fifo():
            existing(name)  # reports it
        here = {Path(name)} if Path(name).is_file() else _matching(name)
        here = {inner for path in here for inner in ([path] if path.is_file() else _texts(path))}
        if not here:
            raise RegardError(f"{name}: no such file, and no folder or pattern with text files (.txt, .txt.gz)")
        for path in sorted(here):
            result.setdefault(path.resolve(), path)
    return sorted(result.values())


def _texts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith((".txt", ".txt.gz")) and path.is_file()]


def _matching(pattern: str) -> set[Path]:
    # the module glob, because Path.glob does not accept absolute patterns
    return {Path(path) for path in glob.glob(pattern, recursive=True)}  # noqa: PTH207


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file without line ends; `.gz` files are decompressed."""
    return (line.rstrip("\r\n") for line in lines_with_ends(path))


def lines_with_ends(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file with their line ends; `.gz` files are decompressed.

    The text is unchanged, except that a byte order mark at the beginning of the file is removed, and a carriage return
    before a line feed.
    """
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        for line in _decoded(file, str(path)):
            yield line.replace("\r\n", "\n")


def decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Decodes lines of bytes, without line ends."""
    return (line.rstrip("\r\n") for line in _decoded(file, name))


def _decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Decodes lines of bytes, without a byte order mark.

    Only a line feed ends a line: other Unicode line separators are part of the text, so that parallel files stay
    aligned.
    """
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        bad = error.object[error.start : error.end].hex(" ")
        raise RegardError(f"{name}, line {number}: not UTF-8 (bytes {bad}); save the file as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RegardError(f"{name}: damaged after line {number} ({error}); create or download the file again") from None


def existing(name: str) -> Path:
    """The path of a file, which must exist."""
    path = Path(name)
    if path.is_dir():
        raise RegardError(f"{name}: is a folder; give a file")
    if path.exists() and not path.is_file():
        raise RegardError(f"{name}: is not a regular file, and a pipe can be read only once; save it to a file first")
    if not path.exists():
        raise RegardError(f"{name}: no such file")
    return path


def pairs(path: Path, target: Path | None = None) -> Iterator[tuple[str, str]]:
    """Sentence pairs: the first two columns of a TSV file, or the lines of two files."""
    if target is None:
        for number, line in enumerate(lines(path), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise RegardError(
                    f"{path}, line {number}: no tab between source and target in {line[:60]!r}; "
                    f"give a TSV file, or two parallel files"
                )
            yield columns[0], columns[1]
        return
    for number, (one, other) in enumerate(zip_longest(lines(path), lines(target)), start=1):
        if one is None or other is None:
            shorter, longer = (path, target) if one is None else (target, path)
            count = sum(1 for _ in lines(longer))
            raise RegardError(
                f"{shorter} has {counted(number - 1, 'line')} and {longer} has {count:,}; "
                f"parallel files need the same number of lines"
            )
        yield one, other
