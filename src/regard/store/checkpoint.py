"""Checkpoints: everything that training needs to go on as if it had never stopped.

Two or more are kept, so that if the newest is damaged the one before it serves. Tensors are safetensors, the rest is
JSON; nothing is ever unpickled.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import RegardError
from regard.folders import read_tensors, restore, verify, write_tensors, write_whole


def save(run: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], kept: int = 2) -> None:
    """Writes the checkpoint of a step, then removes all but the last few."""

    def fill(aside: Path) -> None:
        write_tensors(aside / "tensors.safetensors", tensors)
        (aside / "state.json").write_text(json.dumps(state), "utf-8")

    write_whole(run / "checkpoints" / f"step-{step:09d}", fill)
    for folder in every(run)[:-kept]:
        shutil.rmtree(folder)


def load(run: Path, warn: Callable[[str], None]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """The newest checkpoint that is whole, or None if there are none at all; damaged ones are named."""
    for folder in reversed(every(run)):
        try:
            verify(folder)
        except RegardError as error:
            warn(f"{error}; looking for the checkpoint before it")
            continue
        return read_tensors(folder / "tensors.safetensors"), json.loads((folder / "state.json").read_text("utf-8"))
    if every(run):
        raise RegardError(
            f"no checkpoint of {run} is whole; to begin anew, remove the folder or choose another run=..."
        )
    return None


def mean(run: Path, count: int, prefix: str, warn: Callable[[str], None]) -> dict[str, Tensor]:
    """The mean of the tensors whose names begin so, over the last checkpoints that are whole."""
    sums: dict[str, Tensor] = {}
    found = 0
    for folder in every(run)[-count:]:
        try:
            verify(folder)
        except RegardError as error:
            warn(f"{error}; left out of the mean")
            continue
        found += 1
        for name, tensor in read_tensors(folder / "tensors.safetensors").items():
            if name.startswith(prefix):
                sums[name] = sums[name] + tensor if name in sums else tensor
    return {name.removeprefix(prefix): (total / found).to(total.dtype) for name, total in sums.items()}


def every(run: Path) -> list[Path]:
    """The folders of a run's checkpoints, the oldest first."""
    for old in (run / "checkpoints").glob(".step-*.old"):
        restore(old.with_name(old.name.removeprefix(".").removesuffix(".old")))
    return sorted((run / "checkpoints").glob("step-*"))
