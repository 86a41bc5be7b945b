"""Learning rate schedule: linear warm-up, then the chosen schedule, then a cooldown to zero."""

import math

from regard.training.config import TrainConfig


def learning_rate(config: TrainConfig, step: int, progress: float) -> float:
    """The learning rate of a step (counted from 0), given the fraction of the budget that is used up."""
    warmup = min(1.0, (step + 1) / (config.warmup + 1))
    shape = {
        "constant": 1.0,
        "inverse_sqrt": math.sqrt(max(1, config.warmup) / max(1, config.warmup, step)),
        "linear": 1 - progress,
        "cosine": (1 + math.cos(math.pi * progress)) / 2,
    }[config.schedule]
    cooldown = min(1.0, (1 - progress) / config.cooldown) if config.cooldown else 1.0
    return config.learning_rate * warmup * shape * max(0.0, cooldown)
