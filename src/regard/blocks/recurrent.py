"""Recurrent blocks based on torch's kernels: an encoder, and a decoder cell that attends to the encoder's memory.

    tanh RNN   h_t = tanh(U x_t + V h_(t−1) + b);  GRU and LSTM add gates to it
    decoder    c_t = attention(s_(t−1), h),  s_t = cell([x_t, c_t], s_(t−1))        (Bahdanau et al. 2015)

Without attention, s_0 is all the information that the decoder has about the source.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.blocks import masks
from regard.blocks.operations import Call, Operation
from regard.blocks.scores import ScoredAttention, ScoredMemory
from regard.blocks.shapes import expect, expect_one_of

Cell = Literal["rnn", "gru", "lstm"]
KERNELS: dict[str, type[nn.RNN | nn.GRU | nn.LSTM]] = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


class RecurrentEncoder(nn.Module):
    """Reads a sequence from left to right and, if `bidirectional`, also from right to left.

    Its memory has width `memory_width`: `width` for each direction. Dropout is applied between layers.
    """

    def __init__(
        self,
        cell: Cell,
        in_width: int,
        width: int,
        *,
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        expect_one_of("cell", cell, KERNELS)
        self.in_width, self.width = in_width, width
        self.memory_width = 2 * width if bidirectional else width
        inner_dropout = dropout if layers > 1 else 0.0  # torch warns about dropout with a single layer
        self.kernel = KERNELS[cell](
            in_width, width, layers, batch_first=True, bidirectional=bidirectional, dropout=inner_dropout
        )

    def forward(self, x_BSE: Tensor, is_padding_BS: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The memory (a state for each position, zero at padding) and the last state of the top layer."""
        if is_padding_BS is None:
            expect("x", x_BSE, "batch", "length", self.in_width)
            memory_BSM, last = self.kernel(x_BSE)
            return memory_BSM, self._final(last)
        expect("x", x_BSE, *is_padding_BS.shape, self.in_width)
        lengths_B = masks.padding(is_padding_BS).sum((1, 2, 3))
        if bool((is_padding_BS[:, :-1] > is_padding_BS[:, 1:]).any()):
            raise ValueError("padding should come after the words of a sentence, not before or between them")
        if bool((lengths_B == 0).any()):
            raise ValueError(f"sentence {int(lengths_B.argmin())} of the batch is empty; remove empty sentences")
        # packed, so that the right-to-left direction starts at the last word and not in the padding
        packed = pack_padded_sequence(x_BSE, lengths_B.cpu(), batch_first=True, enforce_sorted=False)
        states, last = self.kernel(packed)
        memory_BSM, _ = pad_packed_sequence(states, batch_first=True, total_length=x_BSE.size(1))
        return memory_BSM, self._final(last)

    def _final(self, last: Tensor | tuple[Tensor, ...]) -> Tensor:
        """The last state of the top layer, of both directions if there are two."""
        return _as_tuple(last)[0][-(self.memory_width // self.width) :].transpose(0, 1).flatten(1)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The states; torch's kernel does not expose its inner operations."""
        memory_BSM, _ = call.output
        where = RecurrentEncoder.forward, "states, last = self.kernel("
        yield Operation("hidden states", "h_t = cell(x_t, h_(t∓1))", memory_BSM, where)


@dataclass(frozen=True)
class CellState:
    """State of a decoder: hidden states of its layers, its memory, and the last attention weights."""

    hidden: tuple[Tensor, ...]
    """One (layers, batch, width) tensor; for an LSTM two, the second being the cell states."""
    memory: ScoredMemory | None
    weights_BS: Tensor | None

    def reorder(self, index_B: Tensor) -> "CellState":
        """The state of the sentences `index_B`."""
        return CellState(
            tuple(part.index_select(1, index_B) for part in self.hidden),
            None if self.memory is None else self.memory.reorder(index_B),
            None if self.weights_BS is None else self.weights_BS.index_select(0, index_B),
        )


class AttentiveCell(nn.Module):
    """One step of a recurrent decoder; without attention, it knows the source only through s_0.

    Its output has width `out_width`: state and context, concatenated. Dropout is applied between layers.
    """

    takes_one_token: ClassVar = True

    def __init__(
        self,
        cell: Cell,
        in_width: int,
        width: int,
        *,
        memory_width: int,
        attention: ScoredAttention | None,
        layers: int = 1,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        expect_one_of("cell", cell, KERNELS)
        context_width = memory_width if attention else 0
        self.in_width, self.width, self.memory_width, self.layers = in_width, width, memory_width, layers
        self.out_width = width + context_width
        self.attention = attention
        inner_dropout = dropout if layers > 1 else 0.0
        self.kernel = KERNELS[cell](in_width + context_width, width, layers, batch_first=True, dropout=inner_dropout)
        self.parts = 2 if cell == "lstm" else 1
        self.bridge = nn.Linear(memory_width, self.parts * layers * width)

    def start(self, memory_BSM: Tensor, final_BM: Tensor, is_padding_BS: Tensor | None = None) -> CellState:
        """s_0 = tanh(W h_last), and the memory to attend to."""
        expect("final", final_BM, "batch", self.memory_width)
        states = self.bridge(final_BM).tanh()
        hidden = tuple(
            part.unflatten(1, (self.layers, self.width)).transpose(0, 1).contiguous()
            for part in states.chunk(self.parts, dim=1)
        )
        if self.attention is None:
            return CellState(hidden, None, None)
        is_padding_BS = masks.no_padding(memory_BSM) if is_padding_BS is None else is_padding_BS
        memory = self.attention.remember(memory_BSM, is_padding_BS)
        return CellState(hidden, memory, self.attention.begin(memory))

    def forward(self, x_BE: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Processes one token's vector; returns the output and the next state."""
        expect("x", x_BE, "batch", self.in_width)
        hidden = state.hidden if self.parts == 2 else state.hidden[0]
        if self.attention is None:
            out_B1D, hidden = self.kernel(x_BE[:, None], hidden)
            return out_B1D[:, 0], CellState(_as_tuple(hidden), None, None)
        assert state.memory is not None
        assert state.weights_BS is not None
        query_B1D = state.hidden[0][-1][:, None]
        context_B1M, weights_BS = self.attention(query_B1D, state.memory, state.weights_BS)
        out_B1D, hidden = self.kernel(torch.cat((x_BE[:, None], context_B1M), dim=2), hidden)
        out = torch.cat((out_B1D, context_B1M), dim=2)
        return out[:, 0], CellState(_as_tuple(hidden), state.memory, weights_BS)

    def unroll(self, x_BTE: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Processes the vectors of a whole text in order (teacher forcing); returns all outputs and the last state."""
        outputs = []
        for x_BE in x_BTE.unbind(1):
            out, state = self(x_BE, state)
            outputs.append(out)
        return torch.stack(outputs, dim=1), state

    def operations(self, call: Call) -> Iterator[Operation]:
        """The input of the kernel, and the new state."""
        kernel, is_attentive = call.of(self.kernel), self.attention is not None
        where = AttentiveCell.forward, "torch.cat((x_BE" if is_attentive else "self.kernel(x_BE[:, None]"
        equation = "[x_t, c_t]" if is_attentive else "x_t"
        yield Operation("cell input", equation, kernel.args[0], where)
        yield Operation("new state", f"s_t = cell({equation}, s_(t−1))", kernel.output[0], where)


def _as_tuple(hidden: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return hidden if isinstance(hidden, tuple) else (hidden,)
