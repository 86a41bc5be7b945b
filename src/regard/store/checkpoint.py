"""Checkpoints: everything that training needs to resume as if it had never stopped.

At least two are kept; if the newest is damaged, training resumes from the one before it. Tensors are stored as
safetensors, the rest as JSON; nothing is pickled.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.errors import RegardError
from regard.folders import read_tensors, restore, verify, write_folder, write_tensors


def save(run: Path, step: int, tensors: Mapping[str, Tensor], state: Mapping[str, Any], kept: int = 2) -> None:
    """Saves the checkpoint of a step, then removes all but the last `kept`."""

    def fill(temporary: Path) -> None:
        write_tensors(temporary / "tensors.safetensors", tensors)
        (temporary / "state.json").write_text(json.dumps(state), "utf-8")

    write_folder(run / "checkpoints" / f"step-{step:09d}", fill)
    for folder in every(run)[:-kept]:
        shutil.rmtree(folder)


def load(run: Path, warn: Callable[[str], None]) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
    """Loads the newest undamaged checkpoint, or None if there are none at all; warns of damaged ones."""
    for folder in reversed(every(run)):
        try:
            verify(folder)
        except RegardError as error:
            warn(f"{error}; trying the checkpoint before it")
            continue
        return read_tensors(folder / "tensors.safetensors"), json.loads((folder / "state.json").read_text("utf-8"))
    if every(run):
        raise RegardError(
            f"all checkpoints of {run} are damaged; to start again, remove the folder or choose another run=..."
        )
    return None


def mean(run: Path, count: int, prefix: str, warn: Callable[[str], None]) -> dict[str, Tensor]:
    """The mean of the tensors whose names start with `prefix`, over the undamaged ones of the last checkpoints."""
    sums: dict[str, Tensor] = {}
    found = 0
    for folder in every(run)[-count:]:
        try:
            verify(folder)
        except RegardError as error:
            warn(f"{error}; excluded from the mean")
            continue
        found += 1
        for name, tensor in read_tensors(folder / "tensors.safetensors").items():
            if name.startswith(prefix):
                sums[name] = sums[name] + tensor if name in sums else tensor
    return {name.removeprefix(prefix): (total / found).to(total.dtype) for name, total in sums.items()}


def restore_all(run: Path) -> None:
    """Restores checkpoints whose replacement was interrupted."""
    for old in (run / "checkpoints").glob(".step-*.old"):
        restore(old.with_name(old.name.removeprefix(".").removesuffix(".old")))


def every(run: Path) -> list[Path]:
    """The folders of a run's checkpoints, the oldest first."""
    return sorted((run / "checkpoints").glob("step-*"))


def newest(run: Path) -> int | None:
    """The step of the newest checkpoint; None if there are none."""
    folders = every(run)
    return int(folders[-1].name.removeprefix("step-")) if folders else None
