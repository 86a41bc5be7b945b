"""What every codec has: a kind, a slot, a file, and what a model must know of it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

from regard.config import Config

Say = Callable[[str], None]
SAMPLE = 2_000_000  # texts that a vocabulary is learnt from at most


class Codec(Protocol):
    """Turns what a model reads or writes into tensors, and back."""

    kind: ClassVar[str]
    slot: ClassVar[str]
    """The table of a recipe that describes it, and the name of its file: "tokenizer" for all codecs of text."""

    def sizes(self) -> Mapping[str, Any]:
        """What a model must know of it, by the names of the model's config, such as the size of a vocabulary."""
        ...

    def save(self, path: Path) -> None:
        """Writes it as one file."""
        ...

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote."""
        ...


class CodecExamples(NamedTuple):
    """What a codec learns from; each call reads it again."""

    train: Callable[[], Iterable[Any]]
    valid: Callable[[], Iterable[Any]] = tuple


class CodecConfig(Config):
    """A codec of a recipe, before it is made."""

    codec: ClassVar[type[Any]]
    """The codec that is made of it."""
    is_known: ClassVar[bool] = True
    """Its sizes are known before it has seen data; else `expected` gives the least they can be."""

    def expected(self) -> dict[str, Any]:
        """What a model will have to know of it; see `Codec.sizes`."""
        raise NotImplementedError

    def learn(self, examples: CodecExamples, say: Say) -> Any:
        """The codec, learnt from examples or read from a file."""
        raise NotImplementedError

    def make(self, examples: Mapping[str, CodecExamples], say: Say) -> dict[str, Any]:
        """A codec for each role, given what each can learn from."""
        return {role: self.learn(given, say) for role, given in examples.items()}

    @classmethod
    def of(cls, codecs: Sequence[Any]) -> Self:
        """The config that codecs at hand might have been made of."""
        return cls(**codecs[0].sizes())


def files(codecs: Mapping[str, Codec]) -> dict[str, str]:
    """The file of each role's codec: named by its slot alone where that holds one codec, else by the role, too."""
    by_slot: dict[str, set[int]] = {}
    for codec in codecs.values():
        by_slot.setdefault(codec.slot, set()).add(id(codec))
    return {
        role: f"{codec.slot}.json" if len(by_slot[codec.slot]) == 1 else f"{codec.slot}.{role}.json"
        for role, codec in codecs.items()
    }


def save(folder: Path, codecs: Mapping[str, Codec]) -> None:
    """Writes codecs, each once."""
    names = files(codecs)
    for name, codec in {names[role]: codec for role, codec in codecs.items()}.items():
        codec.save(folder / name)


def load(folder: Path, kinds: Mapping[str, type[Any]]) -> dict[str, Any] | None:
    """What `save` wrote, given the class of each role's codec; None if it is not there, or not all of it."""
    names = {}
    for role, kind in kinds.items():
        candidates = [name for name in (f"{kind.slot}.json", f"{kind.slot}.{role}.json") if (folder / name).exists()]
        if not candidates:
            return None
        names[role] = candidates[0]
    loaded = {name: kinds[role].load(folder / name) for role, name in names.items()}
    return {role: loaded[name] for role, name in names.items()}
