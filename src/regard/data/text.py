"""Finds files of text and reads them line by line, plain or gzipped, and says where they are damaged."""

import glob
import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from regard.errors import RegardError


def _listed(value: Any) -> Any:
    """One name may stand for a list of names."""
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


Names = Annotated[
    tuple[str, ...], Field(min_length=1), BeforeValidator(_listed, json_schema_input_type=str | tuple[str, ...])
]


def found(names: Iterable[str]) -> list[Path]:
    """The files of these names, in order; one that goes by several is there once."""
    result: dict[Path, Path] = {}
    for name in names:
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
    # by this module, because a pattern may begin at the root
    return {Path(path) for path in glob.glob(pattern, recursive=True)}  # noqa: PTH207


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; `.gz` is unpacked on the way."""
    return (line.rstrip("\r\n") for line in running(path))


def running(path: Path) -> Iterator[str]:
    """The text of a UTF-8 file, a line at a time with its end; `.gz` is unpacked on the way.

    Nothing is left out or changed but what is not text: a mark at the beginning of the file, and the carriage return
    that some systems put before a line feed.
    """
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        for line in _decoded(file, str(path)):
            yield line.replace("\r\n", "\n")


def decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of bytes as lines of text, without their ends."""
    return (line.rstrip("\r\n") for line in _decoded(file, name))


def _decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of bytes as lines of text, without the mark of its encoding that a file may begin with.

    Only a line feed ends a line: other characters that Unicode counts as line ends stay where they are, so that
    parallel files keep in step.
    """
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        bad = error.object[error.start : error.end].hex(" ")
        raise RegardError(f"{name}, line {number}: not UTF-8 (bytes {bad}); save the file as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise RegardError(f"{name}: damaged after line {number} ({error}); make or fetch the file again") from None


def existing(name: str) -> Path:
    """The file of that name, which must be there."""
    if not Path(name).is_file():
        raise RegardError(f"{name}: no such file")
    return Path(name)


def pairs(path: Path, target: Path | None = None) -> Iterator[tuple[str, str]]:
    """Sentence pairs: the first two columns of a TSV file, or the lines of two files."""
    if target is None:
        for number, line in enumerate(lines(path), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise RegardError(
                    f"{path}, line {number}: no tab between source and target in {line[:60]!r}; "
                    f"give a TSV file, or two files of lines"
                )
            yield columns[0], columns[1]
        return
    for number, (one, other) in enumerate(zip_longest(lines(path), lines(target)), start=1):
        if one is None or other is None:
            shorter, longer = (path, target) if one is None else (target, path)
            count = sum(1 for _ in lines(longer))
            raise RegardError(
                f"{shorter} has {number - 1:,} lines and {longer} has {count:,}; each line needs its pair"
            )
        yield one, other
