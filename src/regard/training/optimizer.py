"""AdamW, the optimizer of all training runs."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from regard.training.config import TrainConfig


def make_optimizer(parameters: Iterable[nn.Parameter], config: TrainConfig) -> torch.optim.AdamW:
    """AdamW with weight decay for matrices only; fused, so that each value is read and written once per step."""
    all_ = list(parameters)
    groups = [
        {"params": [p for p in all_ if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in all_ if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=(0.9, config.beta2), eps=1e-9, fused=True)


def gradient(parameter: nn.Parameter) -> Tensor:
    """The gradient of a parameter; zeros if the loss did not depend on it."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    return parameter.grad
