"""Attention of a recurrent decoder: four score functions between decoder state s and encoder state h_i.

    dot             e_i = (W s)ᵀ h_i                                     Luong et al. 2015
    scaled dot      e_i = (W s)ᵀ h_i / √M
    additive        e_i = vᵀ tanh(W s + U h_i)                            Bahdanau et al. 2015
    location-aware  e_i = vᵀ tanh(W s + U h_i + Z f_i + b), f = F ∗ α    Chorowski et al. 2015

A score has two parts: `keys(memory)`, which depends on the memory alone and is computed once per sentence, and the
score itself, for each query. α are the weights of the previous step, which only the location-aware score uses. A score
also has its equation, and the `scale` by which the core multiplies dot products; for other scores it is None.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from regard.blocks import masks
from regard.blocks.attend import Weigh
from regard.blocks.operations import Call, Operation
from regard.blocks.shapes import expect


class DotScore(nn.Module):
    """e_i = (W s)ᵀ h_i, divided by √M if `scaled`."""

    def __init__(self, query_width: int, memory_width: int, scaled: bool) -> None:
        super().__init__()
        self.memory_width = memory_width
        self.query = nn.Linear(query_width, memory_width, bias=False)
        self.scale = memory_width**-0.5 if scaled else 1.0
        self.equation = "e_i = (W s)ᵀ h_i / √M" if scaled else "e_i = (W s)ᵀ h_i"

    def keys(self, memory_BSM: Tensor) -> Tensor:
        """The memory itself."""
        return memory_BSM

    def forward(self, query_BTD: Tensor, key_BSM: Tensor, _previous_BS: Tensor) -> Tensor:
        """e for each query and each memory vector, before scaling."""
        return self.query(query_BTD) @ key_BSM.mT


class AdditiveScore(nn.Module):
    """e_i = vᵀ tanh(W s + U h_i)."""

    scale: ClassVar[None] = None
    equation: ClassVar = "e_i = vᵀ tanh(W s + U h_i)"

    def __init__(self, query_width: int, memory_width: int, width: int) -> None:
        super().__init__()
        self.memory_width = memory_width
        self.query = nn.Linear(query_width, width, bias=False)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def keys(self, memory_BSM: Tensor) -> Tensor:
        """U h."""
        return self.key(memory_BSM)

    def forward(self, query_BTD: Tensor, key_BSA: Tensor, _previous_BS: Tensor) -> Tensor:
        """e for each query and each memory vector."""
        sum_BTSA = self.query(query_BTD)[:, :, None] + key_BSA[:, None]
        return self.energy(sum_BTSA.tanh()).squeeze(-1)


class LocationAwareScore(nn.Module):
    """e_i = vᵀ tanh(W s + U h_i + Z f_i + b): it also depends on the previous step's weights.

    Args:
        kernel: kernel size of the filters, an odd number of positions.
    """

    scale: ClassVar[None] = None
    equation: ClassVar = "e_i = vᵀ tanh(W s + U h_i + Z f_i + b)"

    def __init__(self, query_width: int, memory_width: int, width: int, channels: int = 10, kernel: int = 31) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a kernel of size {kernel} has no centre; choose an odd size")
        self.memory_width = memory_width
        self.query = nn.Linear(query_width, width, bias=True)
        self.key = nn.Linear(memory_width, width, bias=False)
        self.filters = nn.Conv1d(1, channels, kernel, padding=kernel // 2, bias=False)
        self.location = nn.Linear(channels, width, bias=False)
        self.energy = nn.Linear(width, 1, bias=False)

    def keys(self, memory_BSM: Tensor) -> Tensor:
        """U h."""
        return self.key(memory_BSM)

    def forward(self, query_BTD: Tensor, key_BSA: Tensor, previous_BS: Tensor) -> Tensor:
        """e for one query (T = 1) and each memory vector."""
        expect("query", query_BTD, "batch", 1, "width")
        features_BCS = self.filters(previous_BS[:, None])
        sum_BSA = self.query(query_BTD) + key_BSA + self.location(features_BCS.mT)
        return self.energy(sum_BSA.tanh()).mT


class ScoredMemory(NamedTuple):
    """Memory of a recurrent decoder: keys for the score, values, and their mask."""

    key_BSA: Tensor
    value_BSM: Tensor
    allowed_B11S: Tensor

    def reorder(self, index_B: Tensor) -> "ScoredMemory":
        """The memory of the sentences `index_B`."""
        return ScoredMemory(*(part.index_select(0, index_B) for part in self))


class ScoredAttention(nn.Module):
    """Attention with a score function: c = Σ_i softmax(e)_i h_i, one context vector per query."""

    def __init__(self, score: DotScore | AdditiveScore | LocationAwareScore) -> None:
        super().__init__()
        self.score = score
        self.weigh = Weigh(heads=1, scaled=score.scale is not None)

    def remember(self, memory_BSM: Tensor, is_padding_BS: Tensor) -> ScoredMemory:
        """Keys, values and mask of a memory, computed once."""
        expect("memory", memory_BSM, *is_padding_BS.shape, self.score.memory_width)
        return ScoredMemory(self.score.keys(memory_BSM), memory_BSM, masks.padding(is_padding_BS))

    def begin(self, memory: ScoredMemory) -> Tensor:
        """Weights before the first step: zeros."""
        return torch.zeros_like(memory.value_BSM[..., 0])

    def forward(self, query_BTD: Tensor, memory: ScoredMemory, previous_BS: Tensor) -> tuple[Tensor, Tensor]:
        """The context of each query, and the weights of the last one."""
        expect("query", query_BTD, memory.value_BSM.size(0), "length", self.score.query.in_features)
        expect("previous", previous_BS, *memory.value_BSM.shape[:2])
        scores_BTS = self.score(query_BTD, memory.key_BSA, previous_BS)
        context_B1TM, weights_B1TS = self.weigh(
            scores_BTS[:, None], memory.value_BSM[:, None], memory.allowed_B11S, self.score.scale
        )
        return context_B1TM[:, 0], weights_B1TS[:, 0, -1]

    def operations(self, call: Call) -> Iterator[Operation]:
        """The state that is the query, the memory, and the core's operations on the scores."""
        where = ScoredAttention.forward, "scores_BTS = self.score("
        memory, scores, *weighed, context = call.tell(self.weigh)
        yield Operation("state", "s_(t−1)", call.args[0], where)
        yield replace(memory, name="memory", equation="h_i", where=where)
        yield replace(scores, equation=self.score.equation, where=where)
        yield from weighed
        yield replace(context, name="context", equation="c = Σ_i α_i h_i")
