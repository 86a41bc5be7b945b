"""Tokenizers for language models: GPT-2's byte-level BPE, and a character-level tokenizer.

Both are lossless; `bpe` implements the first one in plain Python.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as Engine

from regard.codecs.bpe import BYTES
from regard.codecs.interface import CodecConfig, CodecExamples, Say
from regard.codecs.long_words import divided
from regard.codecs.tokenizer import Tokenizer, read_lines
from regard.config import FilePath, Positive
from regard.errors import RegardError

END = "<|endoftext|>"
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
VERSION = "#version"  # optional first line of a merges file
LETTERS = dict(zip(sorted(pre_tokenizers.ByteLevel.alphabet()), BYTES, strict=True))
"""The byte that each character stands for in the files of GPT-2, where "Ġ" is a space."""
MAX_LISTED = 5  # maximum number of unknown characters listed in an error
SAMPLE = 10_000  # maximum number of text chunks that a vocabulary is learned from


class LosslessTokenizer(Tokenizer):
    """A lossless tokenizer; `load` returns the subclass that matches the file."""

    description: ClassVar = "a tokenizer of a language model"
    end: int | None
    """The token between two documents, or None."""
    begin: int
    """The first input token of generation without a prompt: `end` if it exists, else a line break, else token 0."""

    def __new__(cls, *engine: Engine) -> Self:
        """Creates the subclass that matches the engine."""
        kind: Any = cls
        if cls is LosslessTokenizer:
            kind = CharacterTokenizer if isinstance(engine[0].model, models.WordLevel) else ByteBpe
        made: Self = super().__new__(kind)
        return made

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        vocabulary = engine.get_vocab()
        _expect_all_numbers(vocabulary)
        self.end = vocabulary.get(END)
        if self.end is not None:
            engine.add_special_tokens([END])
        # "<|endoftext|>" in a text is thirteen characters, not the end of it
        engine.encode_special_tokens = True
        added = engine.get_added_tokens_decoder()
        self._specials = {number: token.content for number, token in added.items() if token.special}
        self._raw = {number: self._bytes_of(name) for name, number in vocabulary.items()}
        self._raw |= {number: b"" if token.special else token.content.encode() for number, token in added.items()}
        line_break = next((number for number, raw in self._raw.items() if raw == b"\n"), 0)
        self.begin = line_break if self.end is None else self.end

    def _bytes_of(self, name: str) -> bytes:
        """The bytes of a token, given its name in the vocabulary."""
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        raise NotImplementedError

    def decode(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of tokens; bytes that are not a complete character become U+FFFD."""
        return [self.raw(tokens).decode("utf-8", "replace") for tokens in texts]

    def raw(self, tokens: Sequence[int]) -> bytes:
        """The bytes of tokens; special tokens and ids outside the vocabulary have none."""
        return b"".join(self._raw.get(token, b"") for token in tokens)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token on its own; bytes that are not a complete character become U+FFFD."""
        return [self._specials.get(token) or self.raw([token]).decode("utf-8", "replace") for token in tokens]

    def words(self, tokens: Sequence[int]) -> list[int]:
        """The index of the word of each token; words are separated by whitespace, and -1 means no word."""
        numbers, word, after_space = [], -1, True
        for token in tokens:
            raw = self.raw([token])
            visible = bool(raw.strip())
            word += visible and (after_space or raw[:1].isspace())
            numbers.append(word if visible else -1)
            after_space = not visible
        return numbers

    def spelled(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """The text of each word that `words` indexes, its tokens joined."""
        numbers = self.words(tokens)
        words = [b""] * (max(numbers, default=-1) + 1)
        for token, number in zip(tokens, numbers, strict=True):
            if number >= 0:
                words[number] += self.raw([token])
        return tuple(word.strip().decode("utf-8", "replace") for word in words)


class ByteBpe(LosslessTokenizer):
    """GPT-2's byte-level BPE: it encodes any text, without normalisation."""

    kind: ClassVar = "byte_pairs"
    description: ClassVar = "a GPT-2 tokenizer"

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine.model, models.BPE):
            raise RegardError(f"the tokenizer's model is {type(engine.model).__name__}; expected BPE")
        splitter = engine.pre_tokenizer
        plain = isinstance(splitter, pre_tokenizers.ByteLevel) and splitter.use_regex and not splitter.add_prefix_space
        if engine.normalizer is not None or not plain:
            raise RegardError(
                f"the tokenizer's normalizer is {engine.normalizer}, its pre-tokenizer {splitter}; "
                f"GPT-2's are None and ByteLevel(add_prefix_space=False, use_regex=True)"
            )
        _expect_all_bytes(engine.get_vocab())
        super().__init__(engine)

    @classmethod
    def train(cls, vocab_size: int, texts: Iterable[str]) -> "ByteBpe":
        """Learns a vocabulary from texts: the bytes, the merged pairs in order, and the end token."""
        minimum = len(LETTERS) + 1
        if vocab_size < minimum:
            raise RegardError(f"a vocabulary of {vocab_size} cannot hold all bytes and {END}; choose {minimum} or more")
        engine = _byte_level(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=list(LETTERS), show_progress=False)
        engine.train_from_iterator(divided(texts, engine), trainer)
        engine.add_special_tokens([END])
        return cls(engine)

    @classmethod
    def from_files(cls, encoder_json: Path, vocab_bpe: Path) -> "ByteBpe":
        """Reads the files of GPT-2, which Hugging Face calls `vocab.json` and `merges.txt`.

        Args:
            encoder_json: JSON object with the id of each token.
            vocab_bpe: The merges in order, one per line, below a line with a version.
        """
        vocabulary = _vocabulary(encoder_json)
        pairs = []
        for number, line in enumerate(read_lines(vocab_bpe), 1):
            if not line or (number == 1 and line.startswith(VERSION)):
                continue
            left, _, right = line.partition(" ")
            if not left or not right or " " in right:
                raise RegardError(f"{vocab_bpe}, line {number}: {line!r} is not two tokens separated by a space")
            for token in (left, right, left + right):
                if token not in vocabulary:
                    raise RegardError(
                        f"{vocab_bpe}, line {number}: {encoder_json} has no token {token!r}; use files of one model"
                    )
            pairs.append((left, right))
        return cls(_byte_level(models.BPE(vocabulary, pairs)))

    @classmethod
    def from_folder(cls, folder: Path) -> "ByteBpe":
        """Reads these files from a folder, under the names of Hugging Face or of the authors."""
        for tokens, pairs in FILES:
            if (folder / tokens).is_file() and (folder / pairs).is_file():
                return cls.from_files(folder / tokens, folder / pairs)
        raise RegardError(f"{folder}: has neither {' nor '.join(' with '.join(names) for names in FILES)}")

    def _bytes_of(self, name: str) -> bytes:
        # only added tokens, which do not occur in text, have characters outside GPT-2's alphabet
        return bytes(map(LETTERS.__getitem__, name)) if LETTERS.keys() >= set(name) else name.encode()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        return self._ids(texts)


class CharacterTokenizer(LosslessTokenizer):
    """A character-level tokenizer: each learned character is a token, and there are no others."""

    kind: ClassVar = "characters"
    description: ClassVar = "a character-level tokenizer"

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine.model, models.WordLevel):
            raise RegardError(f"the tokenizer's model is {type(engine.model).__name__}; expected WordLevel")
        self._numbers = engine.get_vocab()
        if long := [name for name in self._numbers if len(name) != 1]:
            raise RegardError(f"the vocabulary contains {long[0]!r}, which is not a single character")
        super().__init__(engine)

    @classmethod
    def learn(cls, texts: Iterable[str]) -> "CharacterTokenizer":
        """Learns all characters of the texts, sorted by code point."""
        characters: set[str] = set()
        for text in texts:
            characters.update(text)
        if not characters:
            raise RegardError("the text is empty; there are no characters to learn")
        numbers = {character: number for number, character in enumerate(sorted(characters))}
        engine = Engine(models.WordLevel(numbers))
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        engine.decoder = decoders.Fuse()
        return cls(engine)

    def _bytes_of(self, name: str) -> bytes:
        return name.encode()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        try:
            # much faster than the engine, which stores a word and an offset for every token
            return [list(map(self._numbers.__getitem__, text)) for text in texts]
        except KeyError:
            unknown = sorted(set().union(*texts) - self._numbers.keys())
            named = ", ".join(map(repr, unknown[:MAX_LISTED]))
            more = f" and {len(unknown) - MAX_LISTED} more" if len(unknown) > MAX_LISTED else ""
            raise RegardError(
                f"the text has characters that are not in the vocabulary of {len(self._numbers)}: {named}{more}. "
                f"Remove them, or train on a text that contains them"
            ) from None


def _byte_level(model: models.BPE) -> Engine:
    """The library's tokenizer with the settings of GPT-2."""
    engine = Engine(model)
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return engine


def _vocabulary(path: Path) -> dict[str, int]:
    """The token ids in a vocabulary file of GPT-2."""
    try:
        vocabulary = json.loads(path.read_text("utf-8"))
    except ValueError:
        raise RegardError(f"{path}: damaged, not valid JSON") from None
    if not isinstance(vocabulary, dict):
        raise RegardError(f"{path}: expected a JSON object with the id of each token")
    try:
        _expect_all_numbers(vocabulary)
        _expect_all_bytes(vocabulary)
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from None
    return vocabulary


def _expect_all_numbers(vocabulary: Mapping[str, Any]) -> None:
    """Raises an error unless the token ids are 0, 1, 2 and so on, without gaps."""
    for token, number in vocabulary.items():
        if type(number) is not int:
            raise RegardError(f"the id of the token {token!r} is {number!r}; expected 0, 1, 2 ...")
    if missing := set(range(len(vocabulary))) - set(vocabulary.values()):
        raise RegardError(
            f"no token has the id {min(missing)}; ids of {len(vocabulary)} tokens must be 0 to {len(vocabulary) - 1}"
        )


def _expect_all_bytes(vocabulary: Mapping[str, Any]) -> None:
    """Raises an error unless each byte has a token, so that any text can be encoded."""
    if missing := sorted(byte for letter, byte in LETTERS.items() if letter not in vocabulary):
        raise RegardError(f"{len(missing)} of the 256 bytes have no token, the first is {missing[0]:#04x}")


@dataclass(frozen=True, kw_only=True)
class CharactersConfig(CodecConfig):
    """Character-level tokenizer."""

    codec: ClassVar = CharacterTokenizer
    is_known: ClassVar = False
    kind: Literal["characters"] = "characters"

    def expected(self) -> dict[str, Any]:
        """At least one character."""
        return {"vocab_size": 1}

    def learn(self, examples: CodecExamples, _say: Say) -> CharacterTokenizer:
        """Learns all characters of the training and validation text."""
        return CharacterTokenizer.learn(chain(examples.train(), examples.valid()))

    @classmethod
    def of(cls, _codecs: Sequence[Any]) -> Self:
        """The config has no options."""
        return cls()


@dataclass(frozen=True, kw_only=True)
class ByteBpeConfig(CodecConfig):
    """Byte-level BPE, as in GPT-2."""

    codec: ClassVar = ByteBpe
    kind: Literal["byte_pairs"] = "byte_pairs"
    vocab_size: Positive = 8000
    """Vocabulary size, special tokens included."""
    files: FilePath | None = None
    """Folder with GPT-2's own `encoder.json` and `vocab.bpe` (or `vocab.json` and `merges.txt`); without one, a
    vocabulary is learned."""

    def expected(self) -> dict[str, Any]:
        """The size of the vocabulary."""
        return {"vocab_size": self.vocab_size}

    def learn(self, examples: CodecExamples, say: Say) -> ByteBpe:
        """Reads the merges from files, or learns them from text."""
        if self.files:
            return ByteBpe.from_folder(Path(self.files))
        say(f"learning a vocabulary of {self.vocab_size:,} tokens")
        return ByteBpe.train(self.vocab_size, islice(examples.train(), SAMPLE))
