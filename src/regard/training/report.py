"""Progress of training: a progress bar in a terminal, plain lines elsewhere, `log.jsonl`, and TensorBoard."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from regard.errors import RegardError
from regard.folders import naming, write_text

BAR = 20  # characters
BAR_FROM = 100  # the bar is left out in narrower terminals
PERCENT_AND_TIME = len("100 % 99:59:59 left ")


class Report:
    """Reports the progress of training."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.path: Path | None = None
        self.board: Any = None
        """Receives the values of the log, too."""
        self.run = ""
        """The name of the run, at the start of each line; empty if there is only one."""
        self._bar = BAR + 1 if console.width >= BAR_FROM else 0
        self._progress = Progress(
            *([BarColumn(BAR)] if self._bar else []),
            TextColumn("{task.percentage:3.0f} %"),
            TimeRemainingColumn(table_column=Column(no_wrap=True)),
            TextColumn("left"),
            TextColumn("{task.description}", markup=False),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("", total=1.0)

    def open(self, path: Path, step: int, progress: float = 0.0) -> None:
        """Resumes the log at a step; lines of later steps are dropped, because those steps are repeated."""
        self.path = path
        kept = []
        for number, line in enumerate(path.read_bytes().splitlines() if step and path.exists() else [], start=1):
            try:
                if json.loads(line).get("step", 0) <= step:
                    kept.append(line.decode())
            except (ValueError, AttributeError, TypeError, RecursionError):
                # the process was killed while writing, or the file is damaged
                self.say(f"{path}, line {number}: damaged, dropped")
        write_text(path, "".join(f"{line}\n" for line in kept))
        # the time left is estimated from updates after this one, so steps before resuming do not count
        self._progress.reset(self._task)
        self._progress.update(self._task, completed=progress)
        self._progress.start()

    def close(self) -> None:
        """Removes the progress bar."""
        self._progress.stop()
        if self.board is not None:
            self.board.close()
            self.board = None

    def say(self, text: str) -> None:
        """Prints a line."""
        self.console.print(self._named(text), highlight=False, markup=False, soft_wrap=True)

    def step(self, progress: float, *parts: str) -> None:
        """Updates the progress bar with the parts that fit beside percent and time left, most important first."""
        room = self.console.width - PERCENT_AND_TIME - self._bar
        text = self._named(parts[0])
        for part in parts[1:]:
            if len(text) + 2 + len(part) > room:
                break
            text += f"  {part}"
        self._progress.update(self._task, completed=progress, description=text)

    def _named(self, text: str) -> str:
        return f"{self.run}: {text}" if self.run else text

    def log(self, **values: Any) -> None:
        """Appends a line to `log.jsonl`."""
        assert self.path is not None
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
        if self.board is not None:
            self.board.write(values)


def board_module() -> Any:
    """The module that writes TensorBoard events; raises `RegardError` without TensorBoard."""
    try:
        from regard.training import board
    except ImportError:
        raise RegardError(
            "train.tensorboard = true needs tensorboard; install it with: pip install 'regard[board]', "
            "or set the key to false"
        ) from None
    return board
