"""Ctrl-C, SIGTERM and SIGHUP during training: the step is finished and a checkpoint saved before the process ends."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, *((signal.SIGHUP,) if sys.platform != "win32" else ()))
"""A closed terminal sends SIGHUP."""
BURST = 5.0
"""SIGTERMs within this many seconds count as one: torchrun forwards it to processes that may have received it already,
and when torchrun is killed, Linux sends one for each of its threads."""
PATIENCE = 1.0  # seconds until a process that does not end after a second signal is ended
SHOW_CURSOR = "\033[?25h"


class Interrupted(KeyboardInterrupt):
    """Training was stopped by a signal.

    Args:
        step: the step of the checkpoint that training resumes from; None: there is no checkpoint.
    """

    def __init__(self, number: int, step: int | None = None) -> None:
        remedy = "stopped before the first checkpoint, so nothing was saved"
        if step is not None:
            remedy = f"stopped; run the same command again to resume from step {step:,}"
        super().__init__(remedy)
        self.number = number
        self.exit_code = 128 + number  # the convention of shells: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP


class Interrupts:
    """Remembers a signal until training can stop; a second signal ends training immediately."""

    number = 0
    """Number of the received signal; 0: none."""
    _first = 0.0
    """When it was received."""

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        if not self.number:
            self.number, self._first = number, time.monotonic()
        elif _is_second(number, self._first):
            raise Interrupted(number)

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """A context that remembers signals instead of ending the process; it has no effect outside the main thread."""
        with _handled(self._remember):
            yield


def _is_second(number: int, first: float) -> bool:
    """Whether a signal is more than a repetition of the first one, which was received at this time."""
    return number != signal.SIGTERM or time.monotonic() - first >= BURST


@contextmanager
def ending(saved_step: Callable[[], int | None]) -> Iterator[None]:
    """A context in which a signal raises `Interrupted`; it has no effect outside the main thread.

    Python handles signals between two of its instructions, and learning a vocabulary may be one instruction of a
    minute. So a second signal ends the process, if training has not ended by itself a second later.

    Args:
        saved_step: the step of the last checkpoint, or None, for the message.
    """

    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        if len(received) == 1:  # another one must not disturb what is cleaned up
            raise Interrupted(number)

    try:
        with _handled(end), _watched():
            yield
    except Interrupted as stopped:
        raise Interrupted(stopped.number, saved_step()) from None


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # what a parent ignores stays ignored, as SIGHUP after nohup
    handled = [number for number in SIGNALS if number == signal.SIGINT or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in handled}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextmanager
def _watched() -> Iterator[None]:
    """A context that a second signal ends from another thread, after some patience."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ended = threading.Event()
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def watch() -> None:
        first = 0.0
        while data := ours.recv(16):  # nothing: closed
            for number in data:
                if number not in SIGNALS:
                    continue
                if not first:
                    first = time.monotonic()
                elif _is_second(number, first) and not ended.wait(PATIENCE):
                    if os.isatty(2):
                        os.write(2, SHOW_CURSOR.encode())  # the progress bar has hidden it
                    os._exit(128 + number)

    before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(before)
        theirs.close()
        watcher.join()
        ours.close()
