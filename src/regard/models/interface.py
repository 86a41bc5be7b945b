"""Protocols of models: what decoding and the tools for looking inside require."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from torch import Tensor, nn

from regard.blocks.embedding import TokenEmbedding
from regard.blocks.operations import Call, Operation


@runtime_checkable
class DecodingState(Protocol):
    """State of a model while it generates sequences."""

    def reorder(self, index_B: Tensor) -> Self:
        """The state of the sequences `index_B`, in that order; an index may occur several times."""
        ...


@runtime_checkable
class Autoregressive(Protocol):
    """A model that generates one token after the other."""

    def start(self, *inputs: Any) -> Any:
        """The `DecodingState` before the first token; `inputs` are those of the model, without its output."""
        ...

    def step(self, tokens_B: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Processes one token of each sequence; returns logits_BV of the next and the next state.

        The given state is consumed; to continue twice from one state, copy it with `reorder` (but see `lean`).
        """
        ...


@runtime_checkable
class Observable(Protocol):
    """A model that declares its attentions and modules for inspection. All models here do."""

    looks: ClassVar[Mapping[str, tuple[str, str]]]
    """By patterns of attention paths, as `capture` names them: the stream of the queries, and that of the keys."""
    parts: ClassVar[Mapping[str, str]]
    """The modules that process a token, in order, and its stream; `.*` stands for all layers of a list."""


@runtime_checkable
class Transferable(Protocol):
    """A model that can be initialised from another of its kind. All models here can."""

    fresh: ClassVar[tuple[str, ...]]
    """Prefixes of the names of tensors that start untrained for another task or other labels."""
    optional: ClassVar[tuple[str, ...]]
    """Prefixes of the names of tensors that a model of the same kind may lack."""


@runtime_checkable
class Answering(Protocol):
    """A model whose prediction can be computed after each of some layers (logit lens)."""

    answering: ClassVar[str]
    """The path of these layers: a list, or a repeated layer."""

    def answer(self, x_BTD: Tensor) -> Tensor:
        """Logits as if x were the output of the last of these layers."""
        ...


@runtime_checkable
class Predicting(Protocol):
    """A model that reports how it computes its logits, so that walks end with predictions. All models here do."""

    def operations(self, call: Call) -> Iterator[Operation]:
        """The operations after the last of `parts`, given a call of the model; the last one is its logits."""
        ...


class Stack(NamedTuple):
    """The modules of a decoder made of Transformer layers, so that a search can run them directly."""

    embedding: TokenEmbedding
    positions: nn.Module | None
    layers: nn.ModuleList
    norm: nn.Module | None


@runtime_checkable
class Stacked(Protocol):
    """A model that decodes with a stack of Transformer layers; its state has `caches` and maybe a `memory`."""

    def stack(self) -> Stack:
        """The modules that process each token."""
        ...

    def output_parameters(self) -> tuple[Tensor, Tensor | None]:
        """The weight matrix of the output layer, and its bias if it has one."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """A model with modules that run several times in depth; in other models, repeated runs are successive in time."""

    @property
    def repeated(self) -> Mapping[str, int]:
        """By the path of each such module: its maximum number of runs in one call of its parent module.

        A module that may stop early must run in the `forward` of its parent, whose calls reset the depth.
        """
        ...
