"""The budgets of a training run: how much of each is used, and which one ends it."""

import math
from collections.abc import Mapping

from regard.counts import counted
from regard.training.config import TrainConfig
from regard.training.state import TrainingState


def shares(config: TrainConfig, state: TrainingState, batches: int) -> dict[str, float]:
    """The used fraction of each budget, by its key and value, such as `train.steps = 100`.

    Args:
        batches: number of batches in the current epoch.
    """
    found = {}
    if config.steps:
        found[f"train.steps = {config.steps}"] = state.step / config.steps
    if config.epochs:
        found[f"train.epochs = {config.epochs}"] = (state.epoch + state.batch / batches) / config.epochs
    if config.minutes:
        found[f"train.minutes = {config.minutes:g}"] = state.seconds / 60 / config.minutes
    return found


def ended_by(config: TrainConfig, state: TrainingState, used: Mapping[str, float]) -> str | None:
    """What ends the run: a budget that is used up, or early stopping; None: it is not over."""
    for name, share in used.items():
        if share >= 1:
            return name
    if config.patience is not None and state.stale >= config.patience:
        validations = counted(state.stale, "validation")
        return f"early stopping: no improvement in {validations} (train.patience = {config.patience})"
    return None


def first_to_end(config: TrainConfig, steps_per_epoch: float) -> str | None:
    """Which of steps and epochs ends the run, if both are set."""
    if not config.steps or not config.epochs:
        return None
    steps, by_epochs = f"train.steps = {config.steps}", math.ceil(config.epochs * steps_per_epoch)
    epochs = f"train.epochs = {config.epochs} (about {counted(by_epochs, 'step')})"
    first, second = (epochs, steps) if by_epochs < config.steps else (steps, epochs)
    return f"budget: {first} ends before {second}"


def current_epoch(config: TrainConfig, state: TrainingState) -> int:
    """The number of the epoch of the last batch, from 1.

    With gradient accumulation, the last step may take a few batches of an epoch beyond the budget.
    """
    epoch = state.epoch + (state.batch > 0)
    return min(epoch, config.epochs) if config.epochs else epoch
