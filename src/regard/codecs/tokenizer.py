"""Base class of the tokenizers that use the library `tokenizers`."""

from pathlib import Path
from typing import ClassVar, Self

from tokenizers import Tokenizer as Engine

from regard.errors import RegardError


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file; only a line feed ends one, as vocabularies contain other line separators."""
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line, bad = error.object[: error.start].count(b"\n") + 1, error.object[error.start : error.end].hex(" ")
        raise RegardError(f"{path}, line {line}: not UTF-8 (bytes {bad}); save the file as UTF-8") from None


class Tokenizer:
    """A wrapper around the library's tokenizer, the engine."""

    slot: ClassVar = "tokenizer"
    description: ClassVar = "a tokenizer"
    """What error messages call it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file written by `save`."""
        try:
            return cls(Engine.from_file(str(path)))
        except Exception as error:  # the library raises only this class
            raise RegardError(f"{path}: not {cls.description} ({error})") from None

    def save(self, path: Path) -> None:
        """Writes the tokenizer as one JSON file."""
        path.write_text(self.to_json(), "utf-8")

    def to_json(self) -> str:
        """The tokenizer as JSON text."""
        return self.engine.to_str()

    @property
    def vocab_size(self) -> int:
        """The vocabulary size."""
        return self.engine.get_vocab_size()

    def sizes(self) -> dict[str, int]:
        """The vocabulary size, for the model's config."""
        return {"vocab_size": self.vocab_size}

    def names(self, size: int) -> list[str]:
        """The names of the first `size` tokens in the vocabulary; unused ids get a placeholder."""
        return [self.engine.id_to_token(number) or f"<none {number}>" for number in range(size)]
