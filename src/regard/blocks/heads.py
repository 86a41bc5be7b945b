"""Heads: output layers that turn an encoder's hidden states into the predictions of a task.

    words   logits = E · LayerNorm(f(W x + b)) + c,  E being the token embedding  (Devlin et al. 2018, A.2)
    linear  logits = W x + b,  x being each token's hidden state or the pooled one
    pooled  = f(W x_[CLS] + b),  f being tanh in BERT

All heads share the methods `answer(x, tokens)`, in which only the word head uses the token embedding, and
`answer_operations(call)`, which reports its operations in one call of the model.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.feedforward import ACTIVATIONS, Activation
from regard.blocks.norms import LayerNorm
from regard.blocks.operations import OUTPUTS, Call, Operation


class Pooler(nn.Linear):
    """Pools a text into one vector: the first token's hidden state through a linear layer and an activation."""

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__(width, width)
        self.activation = activation

    def forward(self, x_BTD: Tensor) -> Tensor:
        """One vector per text, as a sequence of length 1."""
        return self.activation(super().forward(x_BTD[:, :1]))

    def operations(self, call: Call) -> Iterator[Operation]:
        """The pooled vector."""
        yield Operation("pooled", "f(W x_[CLS] + b)", call.output, (Pooler.forward, "self.activation("))


class WordHead(nn.Module):
    """Masked language modelling and, if `next_sentence`, next-sentence prediction."""

    def __init__(
        self, width: int, vocab_size: int, *, activation: Activation, norm_eps: float, next_sentence: bool
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = LayerNorm(width, norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.next = nn.Linear(width, 2) if next_sentence else None
        """From the pooled vector: the logits of "follows" and "does not follow"."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The vectors that are multiplied with the token embedding."""
        return self.norm(self.activation(self.dense(x_BTD)))

    def answer(self, x_BTD: Tensor, tokens: TokenEmbedding) -> Tensor:
        """The logits over the vocabulary."""
        return tokens.logits(self(x_BTD)) + self.bias

    def operations(self, call: Call) -> Iterator[Operation]:
        """The linear layer with its activation, and the norm."""
        x_BTD = self.activation(call.of(self.dense).output)
        yield Operation("head", "f(W x + b)", x_BTD, (WordHead.forward, "self.dense("))
        yield from call.tell(self.norm)

    def answer_operations(self, call: Call) -> Iterator[Operation]:
        """The vector of a word, and its dot product with each row of the token embedding."""
        yield from call.tell(self)
        yield Operation("logits", "z = E x + c", call.output, (WordHead.answer, "tokens.logits("), OUTPUTS)


class LinearHead(nn.Sequential):
    """Dropout and a linear layer, on each token's hidden state or on the pooled one."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__(Dropout(dropout), nn.Linear(width, outputs))

    def answer(self, x_BTD: Tensor, _tokens: TokenEmbedding) -> Tensor:
        """The logits of all outputs."""
        return self(x_BTD)

    def answer_operations(self, call: Call) -> Iterator[Operation]:
        """The linear layer."""
        yield Operation("logits", "z = W x + b", call.output, (LinearHead.answer, "return self(x_BTD)"), OUTPUTS)
