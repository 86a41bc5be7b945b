"""The cache: folders of encoded text, each named after a hash of everything it depends on.

Every file has a checksum that is verified when the folder is opened. A damaged folder is reported and created again.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from regard.codecs.interface import Say
from regard.folders import naming, seal, verify

T = TypeVar("T")
FORMAT = 1
ABOUT = "entry.json"
CT2_EXPORTS = "ct2"
"""The subfolder of exports for CTranslate2."""
DAY = 24 * 60 * 60  # seconds
_ENTRY = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")
_UNFINISHED = re.compile(r"\.?(?:[0-9a-f]{32}|[0-9a-f]{64})\.(?:(?P<host>.+)\.(?P<process>\d+)|.*)")


def cached(
    cache: Path,
    what: str,
    recipe: list[Any],
    fill: Callable[[Path], None],
    opened: Callable[[Path], T],
    say: Say = warnings.warn,
) -> T:
    """The contents of a cache folder, which is created if it is missing or damaged.

    Args:
        what: kind of contents, for the list of all folders.
        recipe: everything the folder depends on. The folder is named after its hash.
        fill: writes the files of the folder.
        opened: reads them; raises an error if they are damaged.
        say: reports a damaged folder.
    """
    folder = cache / hashlib.sha256(json.dumps([FORMAT, *recipe]).encode()).hexdigest()[:32]
    if folder.exists():
        try:
            verify(folder)
            found = opened(folder)
        except (FileNotFoundError, ValueError, TypeError, EOFError) as error:
            say(f"the cache is damaged and is created again: {error}")
            _remove(folder)
        else:
            mark_used(folder)
            return found
    for path in _unfinished(cache):
        shutil.rmtree(path, ignore_errors=True)
    temporary = _own(folder)
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        with naming(temporary):
            fill(temporary)
            (temporary / ABOUT).write_text(json.dumps({"what": what}), "utf-8")
            seal(temporary)
        _move(temporary, folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return opened(folder)


def mark_used(folder: Path) -> None:
    """Sets the time of the last use."""
    try:
        os.utime(folder)
    except OSError:  # the cache belongs to another user
        return


@dataclass(frozen=True)
class Entry:
    """A folder of the cache."""

    path: Path
    what: str
    bytes: int
    used: float
    """Time of the last use, in seconds since 1970."""


def entries(cache: Path) -> list[Entry]:
    """The folders of the cache, the one used last first; other files in it are ignored."""
    found = [_entry(path) for parent in (cache, cache / CT2_EXPORTS) for path in _ours(parent)]
    return sorted(found, key=lambda entry: -entry.used)


def prune(entry: Entry) -> bool:
    """Removes a folder from the cache, unless a process is just writing it; whether it was removed."""
    if not _is_unfinished(entry.path):
        _remove(entry.path)
        return True
    if _is_in_use(entry.path):
        return False
    shutil.rmtree(entry.path)
    return True


def _entry(path: Path) -> Entry:
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Entry(path, _what(path), size, path.stat().st_mtime)


def _what(path: Path) -> str:
    if _is_unfinished(path):
        return "unfinished, in use" if _is_in_use(path) else "unfinished"
    if path.parent.name == CT2_EXPORTS:
        return "export for CTranslate2"
    try:
        return str(json.loads((path / ABOUT).read_text("utf-8"))["what"])
    except (OSError, ValueError, TypeError, KeyError):
        return "unknown, of another version of Regard"


def _ours(parent: Path) -> Iterator[Path]:
    for path in parent.iterdir() if parent.is_dir() else ():
        if path.is_dir() and (_ENTRY.fullmatch(path.name) or _is_unfinished(path)):
            yield path


def _unfinished(parent: Path) -> list[Path]:
    """Folders left over from killed processes."""
    return [path for path in _ours(parent) if _is_unfinished(path) and not _is_in_use(path)]


def _is_unfinished(path: Path) -> bool:
    return _UNFINISHED.fullmatch(path.name) is not None


def _is_in_use(path: Path) -> bool:
    """Whether the process that writes an unfinished folder still runs; on another machine, for a day."""
    found = _UNFINISHED.fullmatch(path.name)
    assert found is not None
    if sys.platform != "win32" and found["host"] == socket.gethostname():
        try:
            os.kill(int(found["process"]), 0)  # signal 0 only checks whether the process exists
        except ProcessLookupError:
            return False
        except PermissionError:
            return True
        return True
    try:
        return time.time() - path.stat().st_mtime < DAY
    except FileNotFoundError:
        return False


def _own(folder: Path) -> Path:
    """The name of a folder while this process writes or removes it."""
    return folder.with_name(f".{folder.name}.{socket.gethostname()}.{os.getpid()}")


def _remove(folder: Path) -> None:
    bad = _own(folder)
    try:
        folder.rename(bad)  # so that no other process removes the folder after it was created again
    except FileNotFoundError:
        return
    shutil.rmtree(bad)


def _move(temporary: Path, folder: Path) -> None:
    try:
        temporary.rename(folder)
    except OSError:
        if not folder.exists():  # else another process has created it at the same time
            raise
