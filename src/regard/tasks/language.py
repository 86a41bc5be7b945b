"""What a language model is trained to do: tell the next token, everywhere in a text."""

from typing import Any

from torch import Tensor

from regard.blocks.loss import linear_cross_entropy
from regard.data.pretraining import IGNORED
from regard.data.windows import WindowBatch


def loss(model: Any, batch: WindowBatch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss of a batch, summed over the tokens that are asked for; and the same without smoothing."""
    is_asked_BT = batch.next_BT != IGNORED
    x_ND = model.hidden(batch.tokens_BT)[is_asked_BT]
    weight_VD, bias_V = model.output_parameters()
    return linear_cross_entropy(x_ND, weight_VD, bias_V, batch.next_BT[is_asked_BT], smoothing)
