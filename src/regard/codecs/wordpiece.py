"""WordPiece, the tokenizer of BERT: words are split greedily into the longest known subwords, left to right.

Unlike the byte-level tokenizers it is not lossless: case and accents (if lowercase) and whitespace are lost, and a word
that cannot be split into known subwords is [UNK].
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Literal

from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.codecs.interface import SAMPLE, CodecConfig, CodecExamples, Say
from regard.codecs.long_words import divided
from regard.codecs.tokenizer import Tokenizer, read_lines
from regard.config import FilePath, Positive
from regard.errors import RegardError

PAD_TOKEN, UNKNOWN, BEGIN, END, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
SPECIALS = (PAD_TOKEN, UNKNOWN, BEGIN, END, MASK)
INSIDE = "##"  # prefix of a subword that continues a word
MAX_WORD_LENGTH = 100  # characters; a longer word is [UNK]


class WordPiece(Tokenizer):
    """BERT's tokenizer; the ids of its special tokens depend on the vocabulary."""

    kind: ClassVar = "wordpiece"
    description: ClassVar = "a BERT tokenizer"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        if not isinstance(engine.model, models.WordPiece) or engine.model.continuing_subword_prefix != INSIDE:
            kind = type(engine.model).__name__
            raise RegardError(f"the tokenizer's model is {kind}; expected WordPiece with the prefix {INSIDE!r}")
        if not isinstance(engine.normalizer, normalizers.BertNormalizer):
            raise RegardError(f"the tokenizer's normalizer is {engine.normalizer}; expected BertNormalizer")
        vocabulary = engine.get_vocab()
        if missing := [special for special in SPECIALS if special not in vocabulary]:
            raise RegardError(f"the vocabulary lacks {', '.join(missing)}; BERT needs {', '.join(SPECIALS)}")
        self.pad, self.unknown, self.begin, self.end, self.mask = (vocabulary[special] for special in SPECIALS)
        self.specials = frozenset(vocabulary[special] for special in SPECIALS)
        self._silent = self.specials - {self.unknown, self.mask}
        engine.decoder = decoders.WordPiece(prefix=INSIDE)
        # "[MASK]" in a text is six characters, not a special token
        engine.add_special_tokens(list(SPECIALS))
        engine.encode_special_tokens = True

    @classmethod
    def train(cls, vocab_size: int, texts: Iterable[str], *, lowercase: bool = True) -> "WordPiece":
        """Learns a vocabulary from texts."""
        texts = list(divided(texts, _engine([UNKNOWN], lowercase=lowercase)))

        def learn(size: int, given: Sequence[str]) -> list[str]:
            engine = _engine([UNKNOWN], lowercase=lowercase)
            trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=list(given), show_progress=False)
            engine.train_from_iterator(texts, trainer)
            numbers = engine.get_vocab()
            return sorted(numbers, key=numbers.__getitem__)

        # The library assigns ids to word-internal characters in an order that changes from run to run, and these ids
        # break ties between equally frequent pairs. So characters are learned first, and passed to it sorted.
        characters = sorted(learn(0, SPECIALS)[len(SPECIALS) :], key=lambda piece: (piece.startswith(INSIDE), piece))
        minimum = len(SPECIALS) + len(characters)
        if vocab_size < minimum:
            raise RegardError(
                f"a vocabulary of {vocab_size} cannot hold all characters of the texts; choose {minimum} or more"
            )
        return cls.from_vocabulary(learn(vocab_size, [*SPECIALS, *characters]), lowercase=lowercase)

    @classmethod
    def from_vocabulary(
        cls, tokens: Sequence[str], *, lowercase: bool = True, strip_accents: bool | None = None, chinese: bool = True
    ) -> "WordPiece":
        """Creates a tokenizer from the tokens of BERT's own `vocab.txt`, one per line.

        Args:
            strip_accents: None means the same as `lowercase`.
            chinese: Whether every Chinese character is a separate word.
        """
        lines: dict[str, int] = {}
        for line, token in enumerate(tokens, 1):
            if token in lines:
                raise RegardError(f"line {line} of the vocabulary repeats {token!r} of line {lines[token]}; remove one")
            lines[token] = line
        return cls(_engine(tokens, lowercase=lowercase, strip_accents=strip_accents, chinese=chinese))

    @property
    def lowercase(self) -> bool:
        """Whether text is converted to lower case."""
        return bool(self.engine.normalizer.lowercase)

    @cached_property
    def _special_aware(self) -> Engine:
        """A second engine that parses special tokens, because toggling the shared one is not thread-safe."""
        return Engine.from_str(self.to_json())

    def encode(self, texts: Sequence[str], *, parse_specials: bool = False) -> list[list[int]]:
        """The tokens of each text, without [CLS] and [SEP].

        Args:
            parse_specials: Whether special tokens in a text are parsed as such, as in "Paris is the [MASK] of France".
        """
        return self._ids(texts, self._special_aware if parse_specials else self.engine)

    def encode_words(self, sentences: Sequence[Sequence[str]]) -> list[tuple[list[int], list[int]]]:
        """The tokens of sentences that are already split into words, and the index of the word of each token.

        Every word has a token, so that it can have a label: a word that the normaliser removes, such as a control
        character, is [UNK].
        """
        encoded = iter(self.encode([word for sentence in sentences for word in sentence]))
        pairs = []
        for sentence in sentences:
            parts = [next(encoded) or [self.unknown] for _ in sentence]
            numbers = [number for number, part in enumerate(parts) for _ in part]
            pairs.append(([token for part in parts for token in part], numbers))
        return pairs

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sentence, without [PAD], [CLS] and [SEP]."""
        kept = [[token for token in tokens if token not in self._silent] for tokens in sentences]
        return self._texts(kept, skip_special_tokens=False)

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The name of each token in the vocabulary."""
        return [self.engine.id_to_token(token) or "" for token in tokens]

    def words(self, tokens: Sequence[int]) -> list[int]:
        """The index of the word of each token; -1 for [PAD], [CLS] and [SEP]."""
        numbers, word, inside = [], -1, False
        for token, piece in zip(tokens, self.pieces(tokens), strict=True):
            if token in self._silent:
                numbers.append(-1)
                inside = False
                continue
            # a continuation without a word before it is also a word
            word += not (inside and piece.startswith(INSIDE))
            numbers.append(word)
            inside = True
        return numbers

    def spelled(self, tokens: Sequence[int]) -> tuple[str, ...]:
        """The text of each word that `words` indexes, its subwords joined."""
        spelled: list[str] = []
        for piece, word in zip(self.pieces(tokens), self.words(tokens), strict=True):
            if word == len(spelled):
                spelled.append(piece)
            elif word >= 0:
                spelled[word] += piece.removeprefix(INSIDE)
        return tuple(spelled)


def _engine(
    tokens: Sequence[str], *, lowercase: bool, strip_accents: bool | None = None, chinese: bool = True
) -> Engine:
    """The library's tokenizer with the settings of BERT."""
    numbers = {token: number for number, token in enumerate(tokens)}
    engine = Engine(models.WordPiece(numbers, unk_token=UNKNOWN, max_input_chars_per_word=MAX_WORD_LENGTH))
    engine.normalizer = normalizers.BertNormalizer(
        lowercase=lowercase, strip_accents=strip_accents, handle_chinese_chars=chinese
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return engine


@dataclass(frozen=True, kw_only=True)
class WordPieceConfig(CodecConfig):
    """WordPiece, the tokenizer of BERT."""

    codec: ClassVar = WordPiece
    kind: Literal["wordpiece"] = "wordpiece"
    vocab_size: Positive = 8000
    """Vocabulary size, special tokens included."""
    lowercase: bool = True
    """Lower-case the text and strip accents (uncased)."""
    vocabulary: FilePath | None = None
    """Vocabulary file with one token per line, such as BERT's own `vocab.txt`; without one, a vocabulary is learned."""

    def expected(self) -> dict[str, Any]:
        """The size of the vocabulary."""
        return {"vocab_size": self.vocab_size}

    def learn(self, examples: CodecExamples, say: Say) -> WordPiece:
        """Reads the vocabulary from a file, or learns it from texts."""
        if self.vocabulary:
            try:
                return WordPiece.from_vocabulary(read_lines(Path(self.vocabulary)), lowercase=self.lowercase)
            except RegardError as error:
                raise RegardError(f"{self.vocabulary}: {error}") from None
        say(f"learning a vocabulary of {self.vocab_size:,} tokens")
        return WordPiece.train(self.vocab_size, islice(examples.train(), SAMPLE), lowercase=self.lowercase)
