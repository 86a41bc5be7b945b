"""Where a training is."""

from dataclasses import dataclass


@dataclass
class TrainingState:
    """Where training is. With the tensors, all that a checkpoint holds."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best: float = float("inf")
    stale: int = 0
    """Validations since the best one."""
    predicted_steps: int = 0
    predicted_seconds: float = 0.0
    """What the whole run will take, as its first steps tell; 0: not known yet."""
