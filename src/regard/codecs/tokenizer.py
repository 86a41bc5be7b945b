"""Base class of the tokenizers that use the library `tokenizers`."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Self

from tokenizers import Tokenizer as Engine

from regard.codecs.tokenizer_file import expect_harmless
from regard.errors import RegardError
from regard.folders import read_json


def read_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file; only a line feed ends one, as vocabularies contain other line separators."""
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line, bad = error.object[: error.start].count(b"\n") + 1, error.object[error.start : error.end].hex(" ")
        raise RegardError(f"{path}, line {line}: not UTF-8 (bytes {bad}); save the file as UTF-8") from None


def _expect_unicode(texts: Sequence[str]) -> None:
    """Raises `RegardError` if a text cannot be encoded as UTF-8."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RegardError(
                f"character {error.start + 1} of the text is the lone surrogate {text[error.start]!r}; "
                f"decode the text as UTF-8"
            ) from None


@contextmanager
def library_errors() -> Iterator[None]:
    """Turns errors of the library into a `RegardError`: it raises `Exception`, or, if it fails, a `BaseException`."""
    try:
        yield
    except RegardError:
        raise
    except BaseException as error:
        if type(error) is Exception or type(error).__name__ == "PanicException":
            raise RegardError(f"the tokenizer failed: {error}") from None
        raise


class Tokenizer:
    """A wrapper around the library's tokenizer, the engine."""

    slot: ClassVar = "tokenizer"
    description: ClassVar = "a tokenizer"
    """What error messages call it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # tokenizer files from elsewhere may enable truncation and padding, which batches do here
        engine.no_truncation()
        engine.no_padding()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads a file written by `save`."""
        data = read_json(path)
        try:
            expect_harmless(data)
            with library_errors():
                engine = Engine.from_file(str(path))
                engine.post_processor = None  # special tokens are added here, not by the library
            return cls(engine)
        except RegardError as error:
            raise RegardError(f"{path}: not {cls.description} ({error})") from None

    def save(self, path: Path) -> None:
        """Writes the tokenizer as one JSON file."""
        path.write_text(self.to_json(), "utf-8")

    def to_json(self) -> str:
        """The tokenizer as JSON text."""
        return self.engine.to_str()

    def _ids(self, texts: Sequence[str], engine: Engine | None = None) -> list[list[int]]:
        """The ids of the tokens of each text, by the library."""
        try:
            with library_errors():
                encodings = (engine or self.engine).encode_batch_fast(list(texts), add_special_tokens=False)
                return [encoding.ids for encoding in encodings]
        except TypeError:
            _expect_unicode(texts)
            raise

    def _texts(self, sentences: Sequence[Sequence[int]], skip_special_tokens: bool = True) -> list[str]:
        """The text of each sentence, by the library."""
        with library_errors():
            return self.engine.decode_batch([list(ids) for ids in sentences], skip_special_tokens=skip_special_tokens)

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
