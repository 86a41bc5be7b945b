"""A summary of a model before training: its modules, their parameters, and the paths of its attention layers."""

import dataclasses
from typing import Any

import torch
from torch import nn

from regard.blocks.capture import attention_cores, position_modules


def describe(config: Any) -> dict[str, Any]:
    """A config's model as JSON-compatible data: parameter count, modules, attention layers, positional encodings."""
    with torch.device("meta"):  # shapes without memory, so that even a large model is described instantly
        model = config.build()
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "parts": outline(model),
        "attention": list(attention_cores(model)),
        "positions": list(position_modules(model)),
        "config": dataclasses.asdict(config),
    }


def outline(model: nn.Module) -> list[dict[str, Any]]:
    """The modules of a model that own parameters; a shared parameter is counted once."""
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
    """A module path with layer indices replaced by `*`, which is also a pattern for `capture`."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))
