"""Atomic writes of files and folders: written to a temporary path, then renamed into place."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.errors import RegardError

HASHES = "hashes.json"
MAX_DEPTH = 50  # of objects and lists in a JSON file


def write_folder(folder: Path, fill: Callable[[Path], None]) -> None:
    """Lets `fill` write files into a temporary folder, which then replaces `folder`.

    If the process is interrupted, `folder` is either the old one or the new one; see `restore`.
    """
    temporary, old = _sibling(folder, "new"), _sibling(folder, "old")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        fill(temporary)
        hashes = {path.name: _hash(path) for path in sorted(temporary.iterdir())}
        (temporary / HASHES).write_text(json.dumps(hashes, indent=2), "utf-8")
        for path in temporary.iterdir():
            sync(path)
        restore(folder)
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        temporary.rename(folder)
        sync(folder.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def restore(folder: Path) -> None:
    """Restores the old folder, if the process ended after moving it away and before moving the new one in."""
    old = _sibling(folder, "old")
    if old.exists() and not folder.exists():
        old.rename(folder)


def verify(folder: Path) -> None:
    """Raises a `RegardError` that names the file if a file in the folder is damaged or missing."""
    try:
        hashes: dict[str, str] = json.loads((folder / HASHES).read_text("utf-8"))
    except (OSError, ValueError):
        raise RegardError(f"{folder / HASHES}: missing or damaged") from None
    for name, expected in hashes.items():
        path = folder / name
        if not path.is_file():
            raise RegardError(f"{path}: missing")
        if _hash(path) != expected:
            raise RegardError(f"{path}: damaged, its checksum is wrong")


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
    temporary.write_text(text, "utf-8")
    temporary.replace(path)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Writes tensors to a file; a failure, such as a full disk, is an `OSError`, as for any other file."""
    try:
        # Hugging Face's library only opens files that name their format
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(f"{path}: cannot be written ({error})") from None


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
