"""Progress of training: a progress bar in a terminal, plain lines elsewhere, and `log.jsonl` always."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from regard.folders import naming, write_text


class Report:
    """Reports the progress of training."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.path: Path | None = None
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:3.0f} %"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task("training", total=1.0)

    def open(self, path: Path, step: int) -> None:
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
        self._progress.start()

    def close(self) -> None:
        """Removes the progress bar."""
        self._progress.stop()

    def say(self, text: str) -> None:
        """Prints a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def step(self, progress: float, text: str) -> None:
        """Updates the progress bar."""
        self._progress.update(self._task, completed=progress, description=text)

    def log(self, **values: Any) -> None:
        """Appends a line to `log.jsonl`."""
        assert self.path is not None
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(values) + "\n")
