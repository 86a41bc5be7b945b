"""The position-wise feed-forward network: FFN(x) = W_2 f(W_1 x + b_1) + b_2  (Vaswani et al. 2017, eq. 2)."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.linear import Linear
from regard.blocks.operations import Call, Operation
from regard.blocks.shapes import expect, expect_one_of

Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),  # what GPT-2 computes
    "swish": F.silu,
}


class FeedForward(nn.Module):
    """Two linear layers with an activation between them, applied to every position alike."""

    def __init__(self, width: int, ff_width: int, activation: Activation = "relu") -> None:
        super().__init__()
        expect_one_of("activation", activation, ACTIVATIONS)
        self.width = width
        self.inner = Linear(width, ff_width)
        self.outer = Linear(ff_width, width)
        self.activation = ACTIVATIONS[activation]

    def forward(self, x_BTD: Tensor) -> Tensor:
        """FFN(x)."""
        expect("x", x_BTD, "batch", "length", self.width)
        hidden_BTF = self.activation(self.inner(x_BTD))
        return self.outer(hidden_BTF)

    def operations(self, call: Call) -> Iterator[Operation]:
        """Both layers."""
        hidden_BTF, forward = call.of(self.outer).args[0], FeedForward.forward
        yield Operation("feed-forward, inner", "h = f(W_1 x + b_1)", hidden_BTF, (forward, "hidden_BTF = "))
        yield Operation("feed-forward", "W_2 h + b_2", call.output, (forward, "return self.outer("))
