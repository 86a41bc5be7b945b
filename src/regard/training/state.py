"""Progress of training, as saved in checkpoints."""

from dataclasses import dataclass


@dataclass
class TrainingState:
    """Progress of training. A checkpoint consists of this and the tensors."""

    step: int = 0
    epoch: int = 0
    batch: int = 0
    seconds: float = 0.0
    best: float = float("inf")
    stale: int = 0
    """Number of validations since the best one, for early stopping."""
    predicted_steps: int = 0
    predicted_seconds: float = 0.0
    """Predicted time of the whole run, estimated from its first steps; 0: not known yet."""
