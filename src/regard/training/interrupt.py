"""Ctrl-C and SIGTERM during training: the step is finished and a checkpoint saved before the process ends."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(Exception):
    """Training was stopped by a signal, after it had saved a checkpoint."""

    def __init__(self, number: int, step: int) -> None:
        super().__init__(f"stopped at step {step:,}, checkpoint saved; run the same command again to resume")
        self.exit_code = 128 + number  # the convention of shells: 130 for Ctrl-C, 143 for SIGTERM


class Interrupts:
    """Remembers a signal until training can stop; a second signal ends the process immediately."""

    number = 0
    """Number of the received signal; 0: none."""

    def _remember(self, number: int, _frame: FrameType | None) -> None:
        if self.number:
            raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
        self.number = number

    @contextmanager
    def remembered(self) -> Iterator[None]:
        """A context that remembers signals instead of ending the process; it has no effect outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._remember) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
