"""A linear layer, y = W x + b, that is fast for few vectors, too.

A step of decoding multiplies a large matrix with one vector, or a few. The CPU's library does so in one thread. Here
each thread gets a part of the matrix's rows: a batch of smaller products, with the same numbers in the end.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FEW = 64  # vectors; with more, the library's own threads are as good
LARGE = 2**18  # weights; with fewer, a product is over before a second thread has begun


class Linear(nn.Linear):
    """torch's, with `linear` for its product."""

    def forward(self, x: Tensor) -> Tensor:
        """W x + b for each vector."""
        return linear(x, self.weight, self.bias)


def linear(x: Tensor, weight_ED: Tensor, bias_E: Tensor | None = None) -> Tensor:
    """W x + b for each vector; outside of training, few vectors are shared out among the threads."""
    threads, vectors = torch.get_num_threads(), x.numel() // weight_ED.size(1)
    is_shared = threads > 1 and 0 < vectors <= FEW and weight_ED.numel() >= LARGE
    if not is_shared or torch.is_grad_enabled() or x.device.type != "cpu":
        return F.linear(x, weight_ED, bias_E)
    x_ND = x.reshape(vectors, -1)
    each = weight_ED.size(0) // threads
    parts_PED = weight_ED[: threads * each].view(threads, each, weight_ED.size(1))
    y_NE = torch.bmm(x_ND.expand(threads, -1, -1), parts_PED.mT).transpose(0, 1).flatten(1)
    if (rest_ED := weight_ED[threads * each :]).numel():
        y_NE = torch.cat((y_NE, F.linear(x_ND, rest_ED)), dim=1)
    if bias_E is not None:
        y_NE = y_NE.add_(bias_E)
    return y_NE.view(*x.shape[:-1], -1)
