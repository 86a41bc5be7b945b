"""What decoding, and looking inside, ask of a model, whatever it is made of."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Protocol, Self, runtime_checkable

from torch import Tensor, nn

from regard.blocks.embedding import TokenEmbedding


@runtime_checkable
class DecodingState(Protocol):
    """Where a model is in the sequences it writes."""

    def reorder(self, index_B: Tensor) -> Self:
        """The state of the sequences that `index_B` names, in that order; one may be named several times."""
        ...


@runtime_checkable
class Autoregressive(Protocol):
    """A model that writes one token after the other."""

    def start(self, *inputs: Any) -> Any:
        """The `DecodingState` before the first token; the inputs are the model's, without its own output."""
        ...

    def step(self, tokens_B: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Takes in one token for each sequence; gives logits_BV for the next and the next state.

        The state given is used up; to go on twice from one state, `reorder` makes copies (but see `lean`).
        """
        ...


@runtime_checkable
class Observable(Protocol):
    """A model that one can look into: it says who looks at whom. All models here are."""

    looks: ClassVar[Mapping[str, tuple[str, str]]]
    """For patterns of attention paths, as `capture` names them: the stream that asks, and the one that answers."""
    parts: ClassVar[Mapping[str, str]]
    """The parts that a token goes through, in order, and its stream; `.*` stands for all layers of a list."""


@runtime_checkable
class Transferable(Protocol):
    """A model that may begin with the weights of another of its kind. All models here are."""

    fresh: ClassVar[tuple[str, ...]]
    """How the names of tensors begin that start untrained under another task, or under other labels."""
    optional: ClassVar[tuple[str, ...]]
    """How the names of tensors begin that one of two models of the same kind may lack."""


@runtime_checkable
class Answering(Protocol):
    """A model that can be asked for its answer after each of some layers."""

    answering: ClassVar[str]
    """The path of these layers: a list, or a layer that is repeated."""

    def answer(self, x_BTD: Tensor) -> Tensor:
        """Logits as they would be, if x were what the last of these layers gives."""
        ...


class Stack(NamedTuple):
    """The parts of a decoder made of Transformer layers, for a search to run them itself."""

    embedding: TokenEmbedding
    positions: nn.Module | None
    layers: nn.ModuleList
    norm: nn.Module | None


@runtime_checkable
class Stacked(Protocol):
    """A model that writes with a stack of Transformer layers, whose state has their `caches` and maybe a `memory`."""

    def stack(self) -> Stack:
        """What each token goes through."""
        ...

    def output_parameters(self) -> tuple[Tensor, Tensor | None]:
        """The matrix of the output layer, and its bias if it has one."""
        ...


@runtime_checkable
class Repeating(Protocol):
    """A model with modules that run several times in depth. Without it, whatever runs again does so in time."""

    @property
    def repeated(self) -> Mapping[str, int]:
        """For the path of each such module: how often it runs, at most, in one call of the module that holds it.

        One that may stop early must run in the `forward` of that module, whose calls tell where it begins anew.
        """
        ...
