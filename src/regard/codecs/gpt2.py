"""Tokenizers for models that go on with a text: GPT-2's, whose tokens are strings of bytes, and one of characters.

Both give a text back to the letter; `bpe` shows in plain Python what the first one does.
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
from regard.codecs.tokenizer import Tokenizer, read_lines
from regard.config import Positive
from regard.errors import RegardError

END = "<|endoftext|>"
FILES = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))
VERSION = "#version"  # how a list of pairs may begin
LETTERS = dict(zip(sorted(pre_tokenizers.ByteLevel.alphabet()), BYTES, strict=True))
"""The byte that each letter stands for in the files of GPT-2, where "Ġ" is a space."""
NAMED = 5  # unknown characters, in an error
SAMPLE = 10_000  # pieces of text that a vocabulary is learnt from at most


class LosslessTokenizer(Tokenizer):
    """A tokenizer that loses nothing; its `load` gives the kind that the file has."""

    called: ClassVar = "a tokenizer of texts"
    end: int | None
    """The token between two documents, if there is one."""
    begin: int
    """What a text that begins with nothing goes on from: `end`, or else a line break, or else token 0."""

    def __new__(cls, *engine: Engine) -> Self:
        """A tokenizer of the kind that can use the engine."""
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
        # files of others may cut and pad on their own
        engine.no_truncation()
        engine.no_padding()
        added = engine.get_added_tokens_decoder()
        self._specials = {number: token.content for number, token in added.items() if token.special}
        self._raw = {number: self._bytes_of(name) for name, number in vocabulary.items()}
        self._raw |= {number: b"" if token.special else token.content.encode() for number, token in added.items()}
        line_break = next((number for number, raw in self._raw.items() if raw == b"\n"), 0)
        self.begin = line_break if self.end is None else self.end

    def _bytes_of(self, name: str) -> bytes:
        """The bytes of a token that the vocabulary has under this name."""
        raise NotImplementedError

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        raise NotImplementedError

    def decode(self, texts: Sequence[Sequence[int]]) -> list[str]:
        """The text of each list of tokens; bytes that are no whole character are shown as U+FFFD."""
        return [self.raw(tokens).decode("utf-8", "replace") for tokens in texts]

    def raw(self, tokens: Sequence[int]) -> bytes:
        """The bytes that tokens stand for: none, if they are special or beyond the vocabulary."""
        return b"".join(self._raw.get(token, b"") for token in tokens)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """What each token looks like on its own; what is no whole character is shown as U+FFFD."""
        return [self._specials.get(token) or self.raw([token]).decode("utf-8", "replace") for token in tokens]

    def words(self, tokens: Sequence[int]) -> list[int]:
        """The number of the word that each token belongs to, words being parted by spaces; -1: to none."""
        numbers, word, parted = [], -1, True
        for token in tokens:
            raw = self.raw([token])
            visible = bool(raw.strip())
            word += visible and (parted or raw[:1].isspace())
            numbers.append(word if visible else -1)
            parted = not visible
        return numbers

    def spelled(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """The words that `words` numbers, their pieces put together."""
        numbers = self.words(tokens)
        words = [b""] * (max(numbers, default=-1) + 1)
        for token, number in zip(tokens, numbers, strict=True):
            if number >= 0:
                words[number] += self.raw([token])
        return tuple(word.strip().decode("utf-8", "replace") for word in words)


class ByteBpe(LosslessTokenizer):
    """GPT-2's byte-level BPE: every text has tokens, and none is changed before it is cut."""

    kind: ClassVar = "byte_pairs"
    called: ClassVar = "a tokenizer of GPT-2"

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine.model, models.BPE):
            raise RegardError(f"the tokenizer's model is {type(engine.model).__name__}; expected BPE")
        cut = engine.pre_tokenizer
        plain = isinstance(cut, pre_tokenizers.ByteLevel) and cut.use_regex and not cut.add_prefix_space
        if engine.normalizer is not None or not plain:
            raise RegardError(
                f"the tokenizer's normalizer is {engine.normalizer}, its pre-tokenizer {cut}; "
                f"GPT-2's are None and ByteLevel(add_prefix_space=False, use_regex=True)"
            )
        _expect_all_bytes(engine.get_vocab())
        super().__init__(engine)

    @classmethod
    def train(cls, vocab_size: int, texts: Iterable[str]) -> "ByteBpe":
        """Learns a vocabulary from texts: the bytes, the pairs in the order in which they are joined, and the end."""
        least = len(LETTERS) + 1
        if vocab_size < least:
            raise RegardError(f"a vocabulary of {vocab_size} cannot hold all bytes and {END}; choose {least} or more")
        engine = _byte_level(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=vocab_size - 1, initial_alphabet=list(LETTERS), show_progress=False)
        engine.train_from_iterator(texts, trainer)
        engine.add_special_tokens([END])
        return cls(engine)

    @classmethod
    def from_files(cls, encoder_json: Path, vocab_bpe: Path) -> "ByteBpe":
        """Reads the files of GPT-2, which Hugging Face calls `vocab.json` and `merges.txt`.

        Args:
            encoder_json: A table with the number of each token.
            vocab_bpe: The pairs to join, one a line and the first ones first, below a line with a version.
        """
        vocabulary = _vocabulary(encoder_json)
        pairs = []
        for number, line in enumerate(read_lines(vocab_bpe), 1):
            if not line or (number == 1 and line.startswith(VERSION)):
                continue
            left, _, right = line.partition(" ")
            if not left or not right or " " in right:
                raise RegardError(f"{vocab_bpe}, line {number}: {line!r} is not two tokens with a space between them")
            for token in (left, right, left + right):
                if token not in vocabulary:
                    raise RegardError(
                        f"{vocab_bpe}, line {number}: {encoder_json} has no token {token!r}; take files of one model"
                    )
            pairs.append((left, right))
        return cls(_byte_level(models.BPE(vocabulary, pairs)))

    @classmethod
    def from_folder(cls, folder: Path) -> "ByteBpe":
        """Reads these files by the names that Hugging Face or the authors gave them."""
        for tokens, pairs in FILES:
            if (folder / tokens).is_file() and (folder / pairs).is_file():
                return cls.from_files(folder / tokens, folder / pairs)
        raise RegardError(f"{folder}: has neither {' nor '.join(' with '.join(names) for names in FILES)}")

    def _bytes_of(self, name: str) -> bytes:
        # a name that is not made of GPT-2's letters can only be of a token that no text has
        return bytes(map(LETTERS.__getitem__, name)) if LETTERS.keys() >= set(name) else name.encode()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise RegardError(
                    f"character {error.start + 1} of the text is {text[error.start]!r}, half of one; "
                    f"is the text encoded as UTF-8?"
                ) from None
        return [encoding.ids for encoding in self.engine.encode_batch_fast(list(texts), add_special_tokens=False)]


class CharacterTokenizer(LosslessTokenizer):
    """Each character that was learned is a token; there are no others."""

    kind: ClassVar = "characters"
    called: ClassVar = "a tokenizer of characters"

    def __init__(self, engine: Engine) -> None:
        if not isinstance(engine.model, models.WordLevel):
            raise RegardError(f"the tokenizer's model is {type(engine.model).__name__}; expected WordLevel")
        self._numbers = engine.get_vocab()
        if long := [name for name in self._numbers if len(name) != 1]:
            raise RegardError(f"the vocabulary has {long[0]!r}, which is not one character")
        super().__init__(engine)

    @classmethod
    def learn(cls, texts: Iterable[str]) -> "CharacterTokenizer":
        """Takes all characters of the texts, in the order of Unicode."""
        characters: set[str] = set()
        for text in texts:
            characters.update(text)
        if not characters:
            raise RegardError("there are no characters to learn; the text is empty")
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
            # far faster than the engine, which keeps a word and a place for every token
            return [list(map(self._numbers.__getitem__, text)) for text in texts]
        except KeyError:
            unknown = sorted(set().union(*texts) - self._numbers.keys())
            named = ", ".join(map(repr, unknown[:NAMED]))
            more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
            raise RegardError(
                f"the text has characters that the model has never seen: {named}{more}; it knows "
                f"{len(self._numbers)}. Leave them out, or train on a text that has them"
            ) from None


def _byte_level(model: models.BPE) -> Engine:
    """The library's tokenizer with the settings of GPT-2."""
    engine = Engine(model)
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    return engine


def _vocabulary(path: Path) -> dict[str, int]:
    """The numbers of tokens in a file of GPT-2."""
    try:
        vocabulary = json.loads(path.read_text("utf-8"))
    except ValueError:
        raise RegardError(f"{path}: damaged, it is not JSON") from None
    if not isinstance(vocabulary, dict):
        raise RegardError(f"{path}: expected a table with the number of each token")
    try:
        _expect_all_numbers(vocabulary)
        _expect_all_bytes(vocabulary)
    except RegardError as error:
        raise RegardError(f"{path}: {error}") from None
    return vocabulary


def _expect_all_numbers(vocabulary: Mapping[str, Any]) -> None:
    """Each number from 0 on has a token."""
    for token, number in vocabulary.items():
        if type(number) is not int:
            raise RegardError(f"the number of the token {token!r} is {number!r}; expected 0, 1, 2 ...")
    if missing := set(range(len(vocabulary))) - set(vocabulary.values()):
        raise RegardError(
            f"no token has the number {min(missing)}; {len(vocabulary)} tokens have 0 to {len(vocabulary) - 1}"
        )


def _expect_all_bytes(vocabulary: Mapping[str, Any]) -> None:
    """Each byte has a token, so that each text has tokens."""
    if missing := sorted(byte for letter, byte in LETTERS.items() if letter not in vocabulary):
        raise RegardError(f"{len(missing)} of the 256 bytes are no tokens, the first of them {missing[0]:#04x}")


@dataclass(frozen=True, kw_only=True)
class CharactersConfig(CodecConfig):
    """Each character of a text by itself."""

    codec: ClassVar = CharacterTokenizer
    is_known: ClassVar = False
    kind: Literal["characters"] = "characters"

    def expected(self) -> dict[str, Any]:
        """One character at least."""
        return {"vocab_size": 1}

    def learn(self, examples: CodecExamples, _say: Say) -> CharacterTokenizer:
        """All characters, those of the text to validate with among them."""
        return CharacterTokenizer.learn(chain(examples.train(), examples.valid()))

    @classmethod
    def of(cls, _codecs: Sequence[Any]) -> Self:
        """There is nothing to choose."""
        return cls()


@dataclass(frozen=True, kw_only=True)
class ByteBpeConfig(CodecConfig):
    """Any text, as bytes that are put together the way GPT-2 does."""

    codec: ClassVar = ByteBpe
    kind: Literal["byte_pairs"] = "byte_pairs"
    vocab_size: Positive = 8000
    """Vocabulary size, special tokens included."""
    files: str | None = None
    """Folder with GPT-2's own `encoder.json` and `vocab.bpe` (or `vocab.json` and `merges.txt`); without one, a
    vocabulary is learnt."""

    def expected(self) -> dict[str, Any]:
        """The size of the vocabulary."""
        return {"vocab_size": self.vocab_size}

    def learn(self, examples: CodecExamples, say: Say) -> ByteBpe:
        """Pairs from files, or learnt from text."""
        if self.files:
            return ByteBpe.from_folder(Path(self.files))
        say(f"learning a vocabulary of {self.vocab_size:,} tokens")
        return ByteBpe.train(self.vocab_size, islice(examples.train(), SAMPLE))
