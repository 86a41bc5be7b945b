"""The base class of all pipelines."""

from typing import Any

import torch


class Pipeline:
    """A model with its codecs, ready to use; `regard.load` returns one."""

    model: Any
    device: torch.device

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return f"<{type(self).__name__}: {self.model.config.kind}, {count:,} parameters>"
