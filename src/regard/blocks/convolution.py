"""Gated 1-D convolution: y = (x ∗ A + a) ⊙ σ(x ∗ B + b), the layer of ConvS2S (Gehring et al. 2017)."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.operations import Call, Operation
from regard.blocks.shapes import expect


class GatedConvolution(nn.Module):
    """Each position sees the `kernel` positions around it; if `causal`, itself and the `kernel` − 1 before it."""

    def __init__(self, width: int, kernel: int, causal: bool) -> None:
        super().__init__()
        if not causal and kernel % 2 == 0:
            raise ValueError(f"a kernel of size {kernel} has no centre; choose an odd size, or causal=True")
        self.width, self.kernel, self.causal = width, kernel, causal
        self.filters = nn.Conv1d(width, 2 * width, kernel)

    def forward(self, x_BTD: Tensor, is_padding_BT: Tensor | None = None) -> Tensor:
        """y at every position; padding tokens count as zeros, like the positions beyond both ends."""
        expect("x", x_BTD, "batch", "length", self.width)
        if is_padding_BT is not None:
            expect("is_padding", is_padding_BT, *x_BTD.shape[:2])
            x_BTD = x_BTD.masked_fill(is_padding_BT[:, :, None], 0.0)
        reach = self.kernel - 1
        before = reach if self.causal else reach // 2
        return self._gate(F.pad(x_BTD, (0, 0, before, reach - before)))

    def begin(self, batch: int) -> Tensor:
        """The inputs before the first step of a causal convolution: kernel − 1 zero vectors."""
        self._expect_causal()
        return self.filters.weight.new_zeros(batch, self.kernel - 1, self.width)

    def step(self, x_B1D: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
        """y at the next position of a causal convolution, and the inputs that the following step needs."""
        self._expect_causal()
        expect("past", past, "batch", self.kernel - 1, self.width)
        expect("x", x_B1D, past.size(0), 1, self.width)
        seen = torch.cat((past, x_B1D), dim=1)
        return self._gate(seen), seen[:, 1:]

    def _expect_causal(self) -> None:
        if not self.causal:
            raise ValueError("a convolution that sees the future cannot run step by step; choose causal=True")

    def _gate(self, x_BTD: Tensor) -> Tensor:
        return F.glu(self.filters(x_BTD.mT), dim=1).mT

    def operations(self, call: Call) -> Iterator[Operation]:
        """The two halves of the filters, and their product."""
        values_BTD, gates_BTD = call.of(self.filters).output.mT.chunk(2, dim=2)
        where = GatedConvolution._gate, "F.glu("
        yield Operation("convolution", "x ∗ A + a", values_BTD, where)
        yield Operation("gate", "σ(x ∗ B + b)", gates_BTD.sigmoid(), where)
        yield Operation("gated", "(x ∗ A + a) ⊙ σ(x ∗ B + b)", call.output, where)
