"""The base class of all pipelines."""

from typing import Any

import torch

from regard.counts import counted

SHOWN_LABELS = 5


class Pipeline:
    """A model with its codecs, ready to use; `regard.load` returns one."""

    model: Any
    device: torch.device

    loaded_from: str | None = None
    """The name that it was loaded by, if any."""

    def __repr__(self) -> str:
        config = self.model.config
        count = sum(parameter.numel() for parameter in self.model.parameters())
        labels = list(getattr(config, "labels", ()))
        parts = [config.kind, f"{count:,} parameters"]
        if labels:
            shown = ", ".join(labels[:SHOWN_LABELS]) + (", ..." if len(labels) > SHOWN_LABELS else "")
            parts.append(f"{counted(len(labels), 'label')} ({shown})")
        if self.loaded_from is not None:
            parts.append(f"from {self.loaded_from}")
        return f"<{type(self).__name__}: {', '.join(parts)}>"
