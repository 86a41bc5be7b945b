"""How to train, whatever is trained."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from regard.config import Config, Natural, Positive, Problem, Rate

Number = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """How to train. Training ends when the first of its budgets is used up, with the learning rate at zero."""

    steps: Positive | None = None
    epochs: Positive | None = None
    minutes: Number | None = None
    batch_tokens: Positive = 4096
    """The most tokens of a batch on either side, padding included."""
    batch_size: Positive | None = None
    """The most examples of a batch; without it, as many as `batch_tokens` has room for."""
    accumulate: Positive = 1
    """Batches that make one step."""
    learning_rate: Number = 1e-3
    warmup: Natural = 500
    """Steps in which the learning rate rises to its full height."""
    schedule: Literal["constant", "inverse_sqrt", "linear", "cosine"] = "inverse_sqrt"
    """What it does then."""
    cooldown: Rate = 0.2
    """Share of the budget at the end in which it falls to zero, whatever the schedule."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    beta2: Rate = 0.98
    """How long Adam remembers the size of gradients."""
    smoothing: Rate = 0.1
    """Label smoothing: this share of each target is spread over the whole vocabulary."""
    clip: Number = 1.0
    """Longest gradient of a step."""
    average: Rate = 0.999
    """The model that is kept is a moving average of the weights that keeps this share at each step; 0: no average."""
    average_last: Natural = 0
    """At the end, the mean weights of so many last checkpoints are tried, too, and kept if they are better."""
    validate: Positive = 500
    """Steps from one validation to the next."""
    patience: Positive | None = None
    """Validations without a better result after which training ends early."""
    checkpoint: Positive = 500
    """Steps from one checkpoint to the next."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What matrix products are computed in; auto: bfloat16 on a graphics card that has it, or else float32."""
    recompute: bool = False
    """Less memory for more time: layers run again in the backward pass, instead of keeping all that they computed."""
    shard: bool = False
    """With several processes, each trains a part of the weights only (FSDP), for models that are too large for one; the
    first also keeps a whole copy on the CPU, to validate with."""

    def problems(self) -> Iterator[Problem]:
        """Values that cannot go together."""
        if self.steps is self.epochs is self.minutes is None:
            yield Problem("steps", "training needs a budget; set steps, epochs or minutes, or several of them")
