"""Reads text line by line, plain or gzipped, and says where it is damaged."""

import gzip
import zlib
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, without their ends; `.gz` is unpacked on the way."""
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        yield from decoded(file, str(path))


def decoded(file: Iterable[bytes], name: str) -> Iterator[str]:
    """Lines of bytes as lines of text, without their ends.

    Only a line feed ends a line: other characters that Unicode counts as line ends stay where they are, so that
    parallel files keep in step.
    """
    number = 0
    try:
        for number, line in enumerate(file, start=1):
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        bad = error.object[error.start : error.end].hex(" ")
        raise ValueError(f"{name}, line {number}: not UTF-8 (bytes {bad}); save the file as UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{name}: damaged after line {number} ({error}); make or fetch the file again") from None


def existing(name: str) -> Path:
    """The file of that name, which must be there."""
    if not Path(name).is_file():
        raise ValueError(f"{name}: no such file")
    return Path(name)


def pairs(path: Path, target: Path | None = None) -> Iterator[tuple[str, str]]:
    """Sentence pairs: the first two columns of a TSV file, or the lines of two files."""
    if target is None:
        for number, line in enumerate(lines(path), start=1):
            columns = line.split("\t")
            if len(columns) < 2:
                raise ValueError(
                    f"{path}, line {number}: no tab between source and target in {line[:60]!r}; "
                    f"give a TSV file, or two files of lines"
                )
            yield columns[0], columns[1]
        return
    for number, (one, other) in enumerate(zip_longest(lines(path), lines(target)), start=1):
        if one is None or other is None:
            shorter, longer = (path, target) if one is None else (target, path)
            count = sum(1 for _ in lines(longer))
            raise ValueError(f"{shorter} has {number - 1:,} lines and {longer} has {count:,}; each line needs its pair")
        yield one, other
