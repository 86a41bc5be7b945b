"""What a model is made of, before anything is trained: its parts, their parameters, the names of its attentions."""

import dataclasses
from typing import Any

import torch
from torch import nn

from regard.blocks.capture import attention_cores, position_modules


def describe(config: Any) -> dict[str, Any]:
    """The model of a config: how many parameters, which parts, attentions and positions; plain data, as JSON has it."""
    with torch.device("meta"):  # shapes without memory, so that the largest model is described at once
        model = config.build()
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "parts": outline(model),
        "attention": list(attention_cores(model)),
        "positions": list(position_modules(model)),
        "config": dataclasses.asdict(config),
    }


def outline(model: nn.Module) -> list[dict[str, Any]]:
    """The parts of a model that have parameters of their own, each parameter counted once, layers one by one."""
    counted: set[int] = set()
    rows = []
    for path, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in counted]
        counted.update(map(id, own))
        if own:
            shapes = [list(p.shape) for p in own]
            rows.append({"path": path, "shapes": shapes, "parameters": sum(p.numel() for p in own)})
    return rows


def starred(path: str) -> str:
    """A module path with the number of the layer left open, which is also a pattern for `capture`."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))
