"""A faster Transformer decoder for beam search and sampling: same results, fewer calls, no copies.

A decoding step computes so little that its cost is reading the weights and calling torch. Therefore query, key and
value are one matrix product here, and the key-value cache of all layers is one tensor. The rows of a beam are queries
of one sequence: they share the encoder output of a sentence and its key-value cache, in which a mask restricts each
row to its own tokens. Reordering the rows of a beam only changes the mask.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from regard.blocks.attend import attend_searching
from regard.blocks.attention import KeyValue, MultiHeadAttention
from regard.blocks.layers import DecoderLayer, EncoderLayer
from regard.blocks.linear import linear
from regard.blocks.norms import BatchNorm
from regard.blocks.positions import Rotary
from regard.blocks.torch_private import has_forward_hooks
from regard.decoding.hypothesis import NEVER
from regard.models.interface import Autoregressive, Stacked

MAX_WIDTH = 8  # rows per sentence; with more, most of the attention would be computed for masked slots
ROOM = 16  # default minimum number of tokens by which the cache grows


def fast_decoder(model: Autoregressive, room: int = ROOM) -> Autoregressive:
    """A fast decoder for the model, or the model itself if it is not a Transformer of this kind.

    Both `step` and `reorder` of a fast decoder consume the state that they are given.

    Args:
        room: the expected number of tokens; up to this number, the cache grows only once.
    """
    return FastDecoder(model, room) if isinstance(model, Stacked) else model


@dataclass
class FastDecoderState:
    """The decoding state of N sentences, each with W rows. `step` and `reorder` modify it in place."""

    layers: Sequence["Layer"]
    length: int
    """Tokens so far."""
    width: int
    """W."""
    block: Tensor
    """L2NHSK: the key-value cache of all layers; S is its capacity in slots."""
    room: int
    """Minimum number of tokens by which the cache grows; it grows by a quarter if that is more."""
    slots: int
    """Slots in use: one for each token that all rows of a sentence share, W for each of the others."""
    unseen: Tensor | None
    """N1WS, the attention mask: 0 where a row may attend to a slot, -inf elsewhere; None: no mask."""
    memory: Sequence[KeyValue]
    """Keys and values of the encoder output for each layer; empty for a model without an encoder."""
    memory_unseen: Tensor | None
    """N11S, the padding mask of the source: 0 for tokens, -inf for padding."""

    def reorder(self, index_B: Tensor) -> "FastDecoderState":
        """The state of the rows in `index_B`."""
        owners = [row // self.width for row in index_B.tolist()]
        groups = [(sentence, len(list(rows))) for sentence, rows in groupby(owners)]
        widths = {count for _, count in groups}
        if len(widths) != 1 or max(widths) > MAX_WIDTH:
            groups, widths = [(sentence, 1) for sentence in owners], {1}
        (width,) = widths
        if self.unseen is None and width > 1:
            self.unseen = self.block.new_zeros(self.block.size(2), 1, self.width, self.block.size(4))
        if self.unseen is not None:
            self.unseen = self.unseen.flatten(0, 2).index_select(0, index_B).view(len(groups), 1, width, -1)
        sentences = [sentence for sentence, _ in groups]
        if sentences != list(range(self.block.size(2))):
            sentence_N = torch.tensor(sentences, dtype=torch.long, device=index_B.device)
            self.block = self.block.index_select(2, sentence_N)
            self.memory = [layer.reorder(sentence_N) for layer in self.memory]
            if self.memory_unseen is not None:
                self.memory_unseen = self.memory_unseen.index_select(0, sentence_N)
        self.width = width
        if width == 1 and self.unseen is not None:
            self._compact()
        return self

    def _compact(self) -> None:
        """Compacts the cache of each sentence, now a single row, to the slots that it attends to."""
        assert self.unseen is not None
        slot_NT = (self.unseen[:, 0, 0, : self.slots] == 0).nonzero()[:, 1].view(len(self.unseen), self.length)
        index = slot_NT[None, None, :, None, :, None].expand(*self.block.shape[:4], -1, self.block.size(5))
        self.block, self.slots, self.unseen = self.block.gather(4, index), self.length, None

    def extend(self) -> None:
        """Allocates a slot for the next token of each row, which only that row may attend to."""
        start, stop = self.slots, self.slots + self.width
        if stop > self.block.size(4):
            room = stop + max(self.room * self.width, stop // 4)
            self.block = _with_room(self.block[..., :start, :], (*self.block.shape[:4], room, self.block.size(5)))
            if self.unseen is not None:
                self.unseen = _with_room(self.unseen[..., :start], (*self.unseen.shape[:3], room))
        if self.unseen is not None:
            self.unseen[..., start:stop] = _own_slots(self.width, self.unseen.dtype, self.unseen.device)
        self.length, self.slots = self.length + 1, stop


class FastDecoder:
    """A decoder with the weights of a model; falls back to the model itself if hooks are registered on it."""

    def __init__(self, model: Any, room: int = ROOM) -> None:
        self.model, self.room = model, room
        self.embedding, self.positions, self.blocks, self.norm = model.stack()

    def start(self, *inputs: Tensor) -> Any:
        """Encodes the source, or the prompt, with the model itself."""
        state: Any = self.model.start(*inputs)
        if not self._is_plain():
            return state
        layers = [Layer(layer) for layer in self.blocks]
        first, length = layers[0], state.caches[0].length
        shape = len(layers), 2, len(inputs[0]), first.heads, length, first.width
        block = self.embedding.weight.new_empty(shape)
        for layer, before in zip(block, state.caches, strict=True):
            if length:
                layer[..., :length, :] = torch.stack([x_BHSK[:, :, :length] for x_BHSK in before.buffer])
        memory, unseen = getattr(state, "memory", None), None
        if memory is None:
            return FastDecoderState(layers, length, 1, block, self.room, length, None, (), None)
        if not bool(memory.allowed.all()):
            unseen = block.new_zeros(memory.allowed.shape).masked_fill_(~memory.allowed, NEVER)
        # contiguous, so that one batched product handles the heads of all sentences without a copy at each step
        seen = [KeyValue(*(x_BHSK.contiguous() for x_BHSK in layer)) for layer in memory.layers]
        return FastDecoderState(layers, length, 1, block, self.room, length, None, seen, unseen)

    def _is_plain(self) -> bool:
        """Whether the model is in plain inference: no dropout, gradients, autocast, batch norm or hooks."""
        modules = list(self.model.modules())
        return not (
            self.model.training
            or torch.is_grad_enabled()
            or torch.is_autocast_enabled(self.embedding.weight.device.type)
            or any(isinstance(module, BatchNorm) for module in modules)
            or any(map(has_forward_hooks, modules))
        )

    def step(self, tokens_B: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Reads one token of each row and returns the logits of the next one."""
        if not isinstance(state, FastDecoderState):
            slow: tuple[Tensor, Any] = self.model.step(tokens_B, state)
            return slow
        x_B1D = self.embedding(tokens_B[:, None])
        x_BD = (x_B1D if self.positions is None else self.positions(x_B1D, state.length))[:, 0]
        start = state.slots
        state.extend()
        seen = state.block[..., : state.slots, :].flatten(0, 1).unbind()
        new = state.block[..., start : state.slots, :].unbind()
        unseen = None if state.unseen is None else state.unseen[..., : state.slots]
        for i, layer in enumerate(state.layers):
            x_BD = layer.attention(x_BD, KeyValue(*seen[2 * i : 2 * i + 2]), new[i], unseen, state.length - 1)
            if state.memory:
                x_BD = layer.cross(x_BD, state.memory[i], state.memory_unseen)
            x_BD = layer.feedforward(x_BD)
        if self.norm is not None:
            x_BD = _normed(x_BD, self.norm)
        return linear(x_BD, *self.model.output_parameters()), state


class Layer:
    """One decoder layer: its weights and its computation."""

    def __init__(self, layer: nn.Module) -> None:
        assert isinstance(layer, EncoderLayer | DecoderLayer)
        attention, ff = layer.attention, layer.feedforward
        self.heads, self.width, self.scale = attention.heads, attention.width // attention.heads, attention.scale
        self.joined = _joined(attention)
        self.rotary = attention.rotary
        self.out = attention.out.weight, attention.out.bias
        self.attention_norm, self.feedforward_norm = layer.attention_residual.norm, layer.feedforward_residual.norm
        self.is_before = layer.attention_residual.placement == "pre"
        if isinstance(layer, DecoderLayer):
            self.cross_query = layer.cross.query.weight, layer.cross.query.bias
            self.cross_out, self.cross_scale = (layer.cross.out.weight, layer.cross.out.bias), layer.cross.scale
            self.cross_norm = layer.cross_residual.norm
        self.inner, self.outer = (ff.inner.weight, ff.inner.bias), (ff.outer.weight, ff.outer.bias)
        self.activation = ff.activation

    def attention(
        self, x_BD: Tensor, seen: KeyValue, new_2NHWK: Tensor, unseen: Tensor | None, position: int
    ) -> Tensor:
        """Self-attention over the tokens so far; writes the keys and values of the current ones to `new`."""
        _, count, heads, rows, width = new_2NHWK.shape
        made_BE = linear(self._before(x_BD, self.attention_norm), *self.joined)
        if self.rotary is not None:
            made_BE = self._rotated(made_BE, self.rotary, position)
        made_3NHWK = made_BE.view(count, rows, 3, heads, width).permute(2, 0, 3, 1, 4)
        new_2NHWK.copy_(made_3NHWK[1:])
        found_NHWK = attend_searching(made_3NHWK[0], *seen, unseen, self.scale)
        return self._after(x_BD, linear(_rows(found_NHWK), *self.out), self.attention_norm)

    def cross(self, x_BD: Tensor, memory: KeyValue, unseen: Tensor | None) -> Tensor:
        """Cross-attention to the source."""
        query_BD = linear(self._before(x_BD, self.cross_norm), *self.cross_query)
        query_NHWK = query_BD.view(len(memory.key_BHSK), -1, self.heads, self.width).transpose(1, 2)
        found_NHWK = attend_searching(query_NHWK, *memory, unseen, self.cross_scale)
        return self._after(x_BD, linear(_rows(found_NHWK), *self.cross_out), self.cross_norm)

    def feedforward(self, x_BD: Tensor) -> Tensor:
        """The feed-forward network."""
        hidden_BF = self.activation(linear(self._before(x_BD, self.feedforward_norm), *self.inner))
        return self._after(x_BD, linear(hidden_BF, *self.outer), self.feedforward_norm)

    def _before(self, x_BD: Tensor, norm: Any) -> Tensor:
        return _normed(x_BD, norm) if self.is_before else x_BD

    def _after(self, x_BD: Tensor, output_BD: Tensor, norm: Any) -> Tensor:
        x_BD = x_BD + output_BD
        return x_BD if self.is_before else _normed(x_BD, norm)

    def _rotated(self, made_BE: Tensor, rotary: Rotary, position: int) -> Tensor:
        """Query and key, rotated by their position, which all rows share; the value is unchanged."""
        rotated, value_BD = made_BE.tensor_split([2 * self.heads * self.width], dim=1)
        rotated_BHTK = rotary(rotated.view(len(rotated), 2 * self.heads, 1, self.width), position)
        return torch.cat((rotated_BHTK.flatten(1), value_BD), dim=1)


def join(model: nn.Module) -> None:
    """Stores the weights of query, key and value contiguously, so that one product computes all three."""
    layers: Any = model.stack().layers if isinstance(model, Stacked) else ()
    for layer in layers:
        parts = layer.attention.query, layer.attention.key, layer.attention.value
        # joined along the rows, so that each of the three stays contiguous, as optimizers expect
        whole_ED = torch.cat([part.weight.detach() for part in parts])
        for part, weight_DD in zip(parts, whole_ED.chunk(3), strict=True):
            part.weight.data = weight_DD


def _joined(attention: MultiHeadAttention) -> tuple[Tensor, Tensor | None]:
    """The joint weight matrix and bias of query, key and value."""
    parts = attention.query, attention.key, attention.value
    weights: list[Tensor] = [part.weight for part in parts]
    biases: list[Tensor] = [part.bias for part in parts]
    whole_ED = _side_by_side(weights)
    if whole_ED is None:
        whole_ED = torch.cat(weights)
    return whole_ED, None if biases[0] is None else torch.cat(biases)


def _side_by_side(matrices: Sequence[Tensor]) -> Tensor | None:
    """The joint matrix, as a view, if these matrices are adjacent in memory."""
    first, end = matrices[0], matrices[0].storage_offset()
    for matrix in matrices:
        is_same = matrix.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not is_same or not matrix.is_contiguous() or matrix.storage_offset() != end:
            return None
        end += matrix.numel()
    return first.as_strided((sum(map(len, matrices)), first.size(1)), first.stride())


def _normed(x_BD: Tensor, norm: Any) -> Tensor:
    return torch.layer_norm(x_BD, (norm.width,), norm.weight, norm.bias, norm.eps)


def _rows(found_NHWK: Tensor) -> Tensor:
    """The attention output of each row, with its heads concatenated."""
    count, heads, rows, width = found_NHWK.shape
    return found_NHWK.transpose(1, 2).reshape(count * rows, heads * width)


def _with_room(x: Tensor, shape: Sequence[int]) -> Tensor:
    """A copy at the start of a larger tensor."""
    larger = x.new_empty(shape)
    larger[tuple(map(slice, x.shape))] = x
    return larger


@cache
@torch.inference_mode(False)  # a cached tensor made in inference mode could not be used outside of it
def _own_slots(width: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The mask of the slots for new tokens: each row attends only to its own."""
    return torch.full((width, width), NEVER, dtype=dtype, device=device).fill_diagonal_(0.0)
