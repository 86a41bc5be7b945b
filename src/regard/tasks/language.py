"""What a language model is trained to do: tell the next token, everywhere in a text."""

from typing import Any

from torch import Tensor

from regard.blocks.loss import linear_cross_entropy
from regard.data.pretraining import IGNORED
from regard.data.windows import WindowBatch


def loss(model: Any, batch: WindowBatch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss of a batch, summed over the tokens that are asked for; and the same without smoothing."""
    x_ND, next_N = model.hidden(*batch.inputs).flatten(0, 1), batch.next_BT.flatten()
    is_asked_N = next_N != IGNORED
    if not is_asked_N.all():
        x_ND, next_N = x_ND[is_asked_N], next_N[is_asked_N]
    weight_VD, bias_V = model.output_parameters()
    return linear_cross_entropy(x_ND, weight_VD, bias_V, next_N, smoothing)
