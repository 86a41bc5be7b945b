"""The lock of a run folder: only one process at a time trains in it.

The system releases the lock when the process ends, even after `kill -9`, so a file that is left over locks nothing. On
Windows, and on file systems without locks, nothing is locked.
"""

import os
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from regard.errors import RegardError

LOCK = "lock"
_HOLDER = re.compile(r"process \d+ on .*\n?")


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Holds the lock of a run folder, which is created if it is missing, and removed if it is empty in the end."""
    descriptor = _locked(run)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        yield
    finally:
        try:
            if sys.platform != "win32":  # Windows cannot remove an open file
                (run / LOCK).unlink(missing_ok=True)
        finally:
            os.close(descriptor)
        with suppress(OSError):  # not empty
            run.rmdir()


def _locked(run: Path) -> int:
    """The descriptor of the lock file, locked."""
    path = run / LOCK
    while True:
        run.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the process before this one has just removed the folder
            continue
        holder = os.read(descriptor, 1000).decode(errors="replace")
        os.lseek(descriptor, 0, os.SEEK_SET)
        if holder and not _HOLDER.fullmatch(holder):
            os.close(descriptor)
            raise RegardError(f"{path} does not belong to a run; choose another folder with run=...")
        if not _lock(descriptor):
            os.close(descriptor)
            raise RegardError(
                f"{run} is in use: {holder.strip() or 'another process'} is training in it; "
                "wait until it has finished, or choose another folder with run=..."
            )
        # the process before this one may have removed the file since it was opened
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Locks a file; False if another process has locked it."""
    if sys.platform != "win32":
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # the file system has no locks
            return True
    return True
