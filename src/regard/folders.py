"""Atomic writes of files and folders: written to a temporary path, then renamed into place."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import RegardError

T = TypeVar("T")
HASHES = "hashes.json"
MAX_DEPTH = 50  # of objects and lists in a JSON file
CARD = "README.md"
"""For people, who may edit it; it has no hash."""
HASHED = (".json", ".safetensors", ".bin", ".npy")
"""Suffixes of the files that Regard reads; such a file without a hash is an error."""
MAX_HASHES = 1_000_000  # bytes; a folder has a few files, and 1 MB names thousands


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Lets `fill` write files into a temporary folder, which then replaces `folder`.

    If the process is interrupted, `folder` is either the old one or the new one; see `restore`.
    """
    temporary, old = _sibling(folder, "new"), _sibling(folder, "old")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        with naming(folder):
            fill(temporary)
            seal(temporary)
        restore(folder)
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        sync(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def seal(folder: Path) -> None:
    """Writes the hashes of the files in a folder, and flushes all of it to disk."""
    hashes = {path.name: _hash(path) for path in sorted(folder.iterdir()) if path.name != CARD}
    (folder / HASHES).write_text(json.dumps(hashes, indent=2), "utf-8")
    for path in (*folder.iterdir(), folder):
        sync(path)


def restore(folder: Path) -> None:
    """Restores the old folder, if the process ended between moving it away and moving the new one in.

    If the process ended after that, the old folder is removed.
    Only the process that writes the folder may do so: if another one is just replacing it, that one would fail.
    """
    old = _sibling(folder, "old")
    if folder.exists():
        shutil.rmtree(old, ignore_errors=True)
    elif old.exists():
        old.rename(folder)


def places(folder: Path) -> tuple[Path, ...]:
    """Where to look for a folder, in order: between the two renames of a replacement, only the old one is there."""
    return folder, _sibling(folder, "old"), folder


def read_folder(find: Callable[[], Path], read: Callable[[Path], T]) -> T:
    """The result of `read` for the folder that `find` returns, repeated if the folder was replaced meanwhile."""
    while True:
        folder = find()
        before = _identity(folder)
        try:
            result = read(folder)
        except (RegardError, OSError):
            if _identity(folder) == before:
                raise
        else:
            if _identity(folder) == before:
                return result


def _identity(folder: Path) -> tuple[int, int] | None:
    """A value that changes if the folder is replaced or removed."""
    try:
        status = folder.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def verify(folder: Path) -> None:
    """Raises a `RegardError` that names the file if a file in the folder is damaged, missing or has no hash."""
    hashes = _hashes(folder / HASHES)
    for name, expected in hashes.items():
        path = folder / name
        if name == CARD:  # older versions stored its hash
            continue
        if not path.is_file():
            raise RegardError(f"{path}: missing")
        if _hash(path) != expected:
            raise RegardError(f"{path}: damaged, its checksum is wrong")
    for path in sorted(folder.iterdir()):
        if path.suffix in HASHED and path.name not in (HASHES, *hashes):
            raise RegardError(f"{path}: not listed in {HASHES}, so it is not part of this folder; move it elsewhere")


def _hashes(path: Path) -> dict[str, str]:
    try:
        if not path.is_file() or path.stat().st_size > MAX_HASHES:  # reading a pipe or a device might never end
            raise ValueError
        hashes = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        raise RegardError(f"{path}: missing or damaged") from None
    if not isinstance(hashes, dict) or not all(isinstance(value, str) for value in hashes.values()):
        raise RegardError(f"{path}: damaged, it must list a checksum for each file")
    if outside := [name for name in hashes if Path(name).name != name]:
        raise RegardError(f"{path}: damaged, {outside[0]!r} is not the name of a file in this folder")
    return hashes


def read_json(path: Path) -> Any:
    """The content of a JSON file; a `RegardError` names a file that is missing or damaged."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise RegardError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else "not valid JSON"
        raise RegardError(f"{path}: damaged, {reason}") from None
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            x
            for each in level
            if isinstance(each, dict | list)
            for x in (each.values() if isinstance(each, dict) else each)
        ]
    if level:
        raise RegardError(f"{path}: damaged, nested too deeply")
    return value


def write_text(path: Path, text: str) -> None:
    """Writes a file atomically: if interrupted, it is either the old one or the new one."""
    temporary = _sibling(path, "new")
    with naming(path):
        temporary.write_text(text, "utf-8")
        sync(temporary)
        temporary.replace(path)
        sync(path.parent)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Adds the path to an `OSError` without one, such as that of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        elif error.errno is None and str(path.parent) not in str(error):  # of numpy
            raise OSError(f"{path}: cannot be written ({error})") from error
        raise


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors to a file; a failure, such as a full disk, is an `OSError`, as for any other file."""
    path.touch()
    mode = path.stat().st_mode  # Hugging Face's library replaces the file by one that only its owner can read
    try:
        # Hugging Face's library only opens files that name their format
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(f"{path}: cannot be written ({error})") from None
    path.chmod(mode)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file; a `RegardError` names a damaged file."""
    try:
        return load_file(path)
    except SafetensorError as error:
        raise RegardError(f"{path}: damaged ({error})") from None


def _sibling(folder: Path, suffix: str) -> Path:
    folder = folder.absolute()  # Path(".") has no name
    return folder.with_name(f".{folder.name}.{suffix}")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    """Flushes a file or folder to disk."""
    is_windows = sys.platform == "win32"
    if is_windows and path.is_dir():  # Windows cannot open folders, and flushes only files opened for writing
        return
    descriptor = os.open(path, os.O_RDWR if is_windows else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def cache() -> Path:
    """The cache folder, for files that can be recreated."""
    return Path(os.environ.get("REGARD_CACHE", Path.home() / ".cache" / "regard"))


def expect_parent(path: Path) -> None:
    """Raises `RegardError` if the parent folder of a file to be written does not exist."""
    if not path.parent.is_dir():
        raise RegardError(f"{path.parent}: no such folder; create it first")
