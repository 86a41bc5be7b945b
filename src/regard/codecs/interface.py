"""The interface of all codecs: a kind, a slot, a file, and the sizes that a model needs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from regard.config import Config

Say = Callable[[str], None]
SAMPLE = 2_000_000  # maximum number of texts that a vocabulary is learned from


class Codec(Protocol):
    """Converts the inputs and outputs of a model to tensors and back."""

    kind: ClassVar[str]
    slot: ClassVar[str]
    """Its table in a recipe and the name of its file: "tokenizer" for all text codecs."""

    def sizes(self) -> Mapping[str, Any]:
        """The values that a model's config takes from it, by key, such as the vocabulary size."""
        ...

    def save(self, path: Path) -> None:
        """Writes the codec as one file."""
        ...

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file written by `save`."""
        ...


class CodecExamples(NamedTuple):
    """The examples that a codec learns from; each call reads them again."""

    train: Callable[[], Iterable[Any]]
    valid: Callable[[], Iterable[Any]] = tuple


class CodecConfig(Config):
    """The settings of a codec in a recipe."""

    codec: ClassVar[type[Any]]
    """The class of the codec."""
    is_known: ClassVar[bool] = True
    """Whether its sizes are known before it has seen data; if not, `expected` gives their minimum."""

    def expected(self) -> dict[str, Any]:
        """The sizes that the codec will have; see `Codec.sizes`."""
        raise NotImplementedError

    def learn(self, examples: CodecExamples, say: Say) -> Any:
        """Learns the codec from examples, or reads it from a file."""
        raise NotImplementedError

    def make(self, examples: Mapping[str, CodecExamples], say: Say) -> dict[str, Any]:
        """Creates a codec for each role from the examples of each."""
        return {role: self.learn(given, say) for role, given in examples.items()}

    @classmethod
    def of(cls, codecs: Sequence[Any]) -> Self:
        """A config that matches existing codecs."""
        return cls(**codecs[0].sizes())


def files(codecs: Mapping[str, Codec]) -> dict[str, str]:
    """The file name of each role's codec: the slot if it has only one codec, else the slot and the role."""
    by_slot: dict[str, set[int]] = {}
    for codec in codecs.values():
        by_slot.setdefault(codec.slot, set()).add(id(codec))
    return {
        role: f"{codec.slot}.json" if len(by_slot[codec.slot]) == 1 else f"{codec.slot}.{role}.json"
        for role, codec in codecs.items()
    }


def save(folder: Path, codecs: Mapping[str, Codec]) -> None:
    """Writes each codec once."""
    names = files(codecs)
    for name, codec in {names[role]: codec for role, codec in codecs.items()}.items():
        codec.save(folder / name)


def load(folder: Path, kinds: Mapping[str, type[Any]]) -> dict[str, Any] | None:
    """Reads codecs written by `save`, given the class of each role's codec; None if any file is missing."""
    names = {}
    for role, kind in kinds.items():
        candidates = [name for name in (f"{kind.slot}.json", f"{kind.slot}.{role}.json") if (folder / name).exists()]
        if not candidates:
            return None
        names[role] = candidates[0]
    loaded = {name: kinds[role].load(folder / name) for role, name in names.items()}
    return {role: loaded[name] for role, name in names.items()}
