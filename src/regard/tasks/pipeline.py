"""What all opened models have in common."""

from typing import Any

import torch


class Pipeline:
    """A model with its codecs, ready to do what it is for; `regard.load` gives one."""

    model: Any
    device: torch.device

    def __repr__(self) -> str:
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return f"<{type(self).__name__}: {self.model.config.kind}, {count:,} parameters>"
