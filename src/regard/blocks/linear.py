"""A linear layer, y = W x + b, that is fast for few vectors, too.

A step of decoding multiplies a matrix with one vector, or a few, and what it costs is to read the matrix. torch does so
in one thread, and slowly. Here a large matrix, which lies column by column (see `laid_out`), is shared: each thread
gets a part of its rows, as a batch of smaller products. With a small one, the product is turned round, Y = W Xᵀ, which
the CPU's library does faster. The numbers are the same in the end.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 64  # vectors; with more, the library's own way is as good
LARGE = 2**20  # weights; with fewer, a product is over before a second thread has begun


class Linear(nn.Linear):
    """torch's, with `linear` for its product."""

    def forward(self, x: Tensor) -> Tensor:
        """W x + b for each vector."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight_ED: Tensor, bias_E: Tensor | None = None) -> Tensor:
    """W x + b for each vector; outside of training, few vectors are multiplied in a way of their own."""
    vectors = x.numel() // weight_ED.size(1)
    if not 0 < vectors <= FEW or torch.is_grad_enabled() or x.device.type != "cpu":
        return F.linear(x, weight_ED, bias_E)
    if weight_ED.numel() >= LARGE and torch.get_num_threads() > 1:
        y_NE = _shared(x.reshape(vectors, -1), weight_ED, torch.get_num_threads())
    elif vectors > 1 and weight_ED.is_contiguous():
        y_NE = (weight_ED @ x.reshape(vectors, -1).t()).t().contiguous()
    else:
        return F.linear(x, weight_ED, bias_E)
    if bias_E is not None:
        y_NE += bias_E
    return y_NE.view(*x.shape[:-1], -1)


def _shared(x_ND: Tensor, weight_ED: Tensor, threads: int) -> Tensor:
    each = weight_ED.size(0) // threads
    parts_PED = weight_ED[: threads * each].view(threads, each, weight_ED.size(1))
    y_NE = torch.bmm(x_ND.expand(threads, -1, -1), parts_PED.mT).transpose(0, 1).flatten(1)
    if (rest_ED := weight_ED[threads * each :]).numel():
        y_NE = torch.cat((y_NE, F.linear(x_ND, rest_ED)), dim=1)
    return y_NE


def laid_out(weight_ED: Tensor) -> Tensor:
    """A copy of a matrix as decoding reads it fastest: one that is large, and makes vectors longer, by columns."""
    is_long = weight_ED.numel() >= LARGE and weight_ED.size(0) > weight_ED.size(1)
    by_rows = torch.contiguous_format
    return weight_ED.t().clone(memory_format=by_rows).t() if is_long else weight_ED.clone(memory_format=by_rows)
