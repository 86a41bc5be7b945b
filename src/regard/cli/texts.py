"""The texts that a verb reads: arguments, a file, or standard input, which is answered as its lines arrive."""

import sys
import time
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any

import typer

from regard.errors import RegardError

CHUNK_SIZE = 1024  # texts at once
BLOCK_BYTES = 1 << 16  # of standard input, read at once
GRACE = 0.02  # seconds without a further line after which the lines that have arrived are answered
PATIENCE = 2.0  # seconds before progress is shown


def chunks(
    texts: Sequence[str] | None, file: Path | None, size: int = CHUNK_SIZE, *, prints: bool = True
) -> Iterator[list[str]]:
    """The texts of a verb in lists of at most `size`. Lines of standard input do not wait for later ones.

    Args:
        prints: whether results are printed as they come, so that a terminal needs no progress bar.
    """
    from regard.data.text import lines

    expect_one_source(texts, file)
    if texts:
        return _with_progress(iter(texts), len(texts), size, prints)
    if file is None:
        return _arriving(size)
    # a pipe cannot be read twice
    count = sum(1 for _ in lines(file)) if _shows_progress(prints) and file.is_file() else None
    return _with_progress(lines(file), count, size, prints)


def expect_one_source(texts: Sequence[str] | None, file: Path | None) -> None:
    """Raises `RegardError` if there are both texts and a file; warns about texts that are names of files."""
    if texts and file is not None:
        raise RegardError("texts on the command line and --file cannot be combined; remove one of them")
    for text in texts or ():
        if _is_file(text):
            typer.echo(f"regard: {text} is read as a text; to read the file of this name: --file {text}", err=True)


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or with a null character
        return False


def standard_input() -> Iterator[str]:
    """The lines of standard input, each as soon as it has arrived."""
    from regard.data.text import decoded

    if sys.stdin.isatty():
        end = "Ctrl-Z and Enter" if sys.platform == "win32" else "Ctrl-D"
        typer.echo(f"regard: reading lines from the terminal; finish with {end}", err=True)
    # without Python's buffer, whose lock a waiting thread would still hold at exit
    return decoded(_lines(getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)), "standard input")


def _lines(file: Any) -> Iterator[bytes]:
    """The lines of a file that may be a pipe or a terminal."""
    parts: list[bytes] = []
    while block := file.read(BLOCK_BYTES):
        *ended, rest = block.split(b"\n")
        for line in ended:
            yield b"".join((*parts, line, b"\n"))
            parts = []
        parts.append(rest)
    if last := b"".join(parts):
        yield last


def _arriving(size: int) -> Iterator[list[str]]:
    """The lines of standard input, in lists of those that have arrived."""
    arrived: Queue[str | Exception | None] = Queue(4 * size)
    some = standard_input()

    def read() -> None:
        try:
            for line in some:
                arrived.put(line)
            arrived.put(None)
        except Exception as error:  # raised again by the thread that waits
            arrived.put(error)

    Thread(target=read, daemon=True).start()
    line = arrived.get()
    while isinstance(line, str):
        chunk = [line]
        try:
            while len(chunk) < size and isinstance(line := arrived.get(timeout=GRACE), str):
                chunk.append(line)
        except Empty:
            pass
        yield chunk
        if isinstance(line, str):
            line = arrived.get()
    if line is not None:
        raise line


def _shows_progress(prints: bool) -> bool:
    return sys.stderr.isatty() and not (prints and sys.stdout.isatty())


def _with_progress(texts: Iterator[str], count: int | None, size: int, prints: bool) -> Iterator[list[str]]:
    """Texts in lists; if they take long, with a progress bar on standard error."""
    if count is None or not _shows_progress(prints):
        while chunk := list(islice(texts, size)):
            yield chunk
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    from regard.cli.console import make_console

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=make_console(stderr=True), transient=True)
    task, begin = bar.add_task("texts", total=count), time.monotonic()
    try:
        while chunk := list(islice(texts, size)):
            yield chunk
            bar.advance(task, len(chunk))
            if time.monotonic() - begin > PATIENCE:
                bar.start()
    finally:
        bar.stop()
