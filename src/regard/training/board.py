"""The log of a run as TensorBoard events (needs `pip install regard[board]`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorboard  # noqa: F401, torch's writer needs it
from torch.utils.tensorboard import SummaryWriter


class Board:
    """Writes values by step. TensorBoard ignores events of an interrupted run that come after `step`."""

    def __init__(self, folder: Path, step: int) -> None:
        self._writer: Any = SummaryWriter(str(folder), purge_step=step + 1)

    def write(self, values: Mapping[str, Any]) -> None:
        """Writes the numbers of a line of the log."""
        for name, value in values.items():
            if name != "step" and isinstance(value, int | float):
                self._writer.add_scalar(name, value, values["step"])

    def close(self) -> None:
        """Writes what is still in memory."""
        self._writer.close()
