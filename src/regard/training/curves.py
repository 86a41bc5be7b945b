"""Learning curves from the logs of runs."""

import json
from pathlib import Path
from typing import Literal

from regard.errors import RegardError
from regard.store.runs import LOG

By = Literal["step", "epoch", "minutes"]
Curves = dict[str, list[tuple[float, float]]]
"""By metric, the points: step, epoch or minutes, and value."""


def curves(run: Path, by: By = "step") -> Curves:
    """The training loss and all validation metrics of a run, which may still be training."""
    path = run / LOG
    if not path.is_file():
        raise RegardError(f"{run} has no {LOG}; give the folder of a run that regard train has written")
    entries = [entry for line in path.read_bytes().splitlines() if (entry := _entry(line))]
    found: Curves = {}
    for entry in entries:
        names = [name for name in entry if name not in ("step", "epoch", "minutes")] if "valid_loss" in entry else []
        for name in ["loss"] if "loss" in entry else names:
            if by not in entry:
                raise RegardError(f"{path} has no {by}, because an older version of Regard wrote it; use --by step")
            found.setdefault(name, []).append((entry[by], entry[name]))
    if not found:
        raise RegardError(f"{path} has no values yet; wait for the first validation")
    return found


def _entry(line: bytes) -> dict[str, float]:
    """A line of the log; empty if it is damaged, or is just being written."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
