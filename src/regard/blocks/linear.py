"""A linear layer, y = W x + b, that is also fast for few vectors.

A decoding step multiplies a matrix with one vector or a few, and its cost is that of reading the matrix. torch does so
slowly, in a single thread. Here a large matrix, stored in column-major order (see `laid_out`), is split among threads:
each gets a part of its rows, as a batch of smaller products. With a small matrix, the product is transposed, Y = W Xᵀ,
which the CPU's BLAS computes faster. The results are the same.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 64  # vectors; with more, torch's own implementation is as fast
LARGE = 2**20  # weights; with fewer, a product is done before a second thread has started


class Linear(nn.Linear):
    """`torch.nn.Linear`, computed by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """W x + b for each vector."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight_ED: Tensor, bias_E: Tensor | None = None) -> Tensor:
    """W x + b for each vector; without gradients, few vectors take a faster path."""
    vectors = x.numel() // weight_ED.size(1)
    if not 0 < vectors <= FEW or torch.is_grad_enabled() or x.device.type != "cpu":
        return F.linear(x, weight_ED, bias_E)
    if weight_ED.numel() >= LARGE and torch.get_num_threads() > 1:
        y_NE = _split_among_threads(x.reshape(vectors, -1), weight_ED, torch.get_num_threads())
    elif vectors > 1 and weight_ED.is_contiguous():
        y_NE = (weight_ED @ x.reshape(vectors, -1).t()).t().contiguous()
    else:
        return F.linear(x, weight_ED, bias_E)
    if bias_E is not None:
        y_NE += bias_E
    return y_NE.view(*x.shape[:-1], -1)


def _split_among_threads(x_ND: Tensor, weight_ED: Tensor, threads: int) -> Tensor:
    rows = weight_ED.size(0) // threads
    parts_PED = weight_ED[: threads * rows].view(threads, rows, weight_ED.size(1))
    y_NE = torch.bmm(x_ND.expand(threads, -1, -1), parts_PED.mT).transpose(0, 1).flatten(1)
    if (rest_ED := weight_ED[threads * rows :]).numel():
        y_NE = torch.cat((y_NE, F.linear(x_ND, rest_ED)), dim=1)
    return y_NE


def laid_out(weight_ED: Tensor) -> Tensor:
    """A copy in the layout that decodes fastest: column-major if large with more rows than columns, else row-major."""
    is_long = weight_ED.numel() >= LARGE and weight_ED.size(0) > weight_ED.size(1)
    by_rows = torch.contiguous_format
    return weight_ED.t().clone(memory_format=by_rows).t() if is_long else weight_ED.clone(memory_format=by_rows)
