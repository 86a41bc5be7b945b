"""Training options that all tasks share."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.config import Config, Natural, Positive, Problem, Rate

Number = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """Training options. Training ends when the first of its budgets is used up; the learning rate is zero by then."""

    renamed: ClassVar = {
        "average": "ema",
        "average_last": "average_checkpoints",
        "smoothing": "label_smoothing",
        "clip": "clip_norm",
        "validate": "validate_every",
        "checkpoint": "checkpoint_every",
    }
    steps: Positive | None = None
    """Budget: maximum number of optimizer steps."""
    epochs: Positive | None = None
    """Budget: maximum number of passes over the training data."""
    minutes: Number | None = None
    """Budget: maximum training time in minutes."""
    batch_tokens: Positive = 4096
    """Batch size limit in tokens, per side (source or target), padding included."""
    batch_size: Positive | None = None
    """Batch size limit in examples; default: as many as fit into `batch_tokens`."""
    accumulate: Positive = 1
    """Gradient accumulation: number of batches per optimizer step."""
    learning_rate: Number = 1e-3
    """Peak learning rate of the optimizer (AdamW)."""
    warmup: Natural = 500
    """Learning rate warmup: number of steps in which it rises linearly from zero to its peak."""
    schedule: Literal["constant", "inverse_sqrt", "linear", "cosine"] = "inverse_sqrt"
    """Learning rate schedule after the warmup."""
    cooldown: Rate = 0.2
    """Learning rate cooldown: fraction of the budget at the end during which it falls to zero, with any schedule."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW, applied to weight matrices only."""
    beta2: Rate = 0.98
    """Adam's second beta: decay rate of the moving average of squared gradients."""
    label_smoothing: Rate = 0.1
    """Label smoothing: this fraction of each target is spread over the whole vocabulary."""
    clip_norm: Number = 1.0
    """Gradient clipping: maximum norm of the gradient of a step."""
    ema: Rate = 0.999
    """Decay rate of the exponential moving average (EMA) of the weights, which are the weights that are
    validated and saved; 0: no EMA."""
    average_checkpoints: Natural = 0
    """Checkpoint averaging: at the end, the mean weights of this many last checkpoints are also validated, and saved
    if they score better."""
    validate_every: Positive = 500
    """Validation interval in steps."""
    patience: Positive | None = None
    """Early stopping: number of validations without improvement after which training ends."""
    checkpoint_every: Positive = 500
    """Checkpoint interval in steps."""
    tensorboard: bool = False
    """Also write the log as TensorBoard events, to the subfolder `tensorboard` of the run."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Mixed precision: data type of matrix products; auto: bfloat16 on a GPU that supports it, else float32."""
    recompute: bool = False
    """Gradient checkpointing (activation recomputation): saves memory and costs time, because layers run again in
    the backward pass."""
    shard: bool = False
    """Fully sharded data parallel (FSDP): with several processes, each holds and trains only a part of the weights.
    The first also keeps a full copy on the CPU for validation."""

    def problems(self) -> Iterator[Problem]:
        """Values that contradict each other."""
        if self.steps is self.epochs is self.minutes is None:
            yield Problem("steps", "training needs a budget; set steps, epochs or minutes, or several of them")
