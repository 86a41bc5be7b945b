"""Subword tokenizers of translators: lossless byte-level BPE or unigram.

Text is normalised to Unicode's composed form (NFC) and encoded as bytes. Thus any text can be encoded, whatever the
training data, and decoding returns exactly the normalised text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, ClassVar, Literal, Self

from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from regard.codecs.interface import SAMPLE, CodecConfig, CodecExamples, Say
from regard.codecs.long_words import divided
from regard.codecs.tokenizer import Tokenizer
from regard.config import Positive
from regard.errors import RegardError

Kind = Literal["bpe", "unigram"]
PAD_ID, BEGIN, END = 0, 1, 2
SPECIALS = ("<pad>", "<s>", "</s>")
FOREIGN = "\0"  # prefix of tokens that this tokenizer can decode but never produces


class SubwordTokenizer(Tokenizer):
    """A byte-level tokenizer whose first tokens are padding, begin and end of sentence."""

    kind: ClassVar = "subword"

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        # "<pad>" in a text is five characters, not a special token
        self.engine.encode_special_tokens = True
        self._spaces = frozenset("ĠĉĊċČč" if "ByteLevel" in repr(engine.decoder) else "▁")
        self._silent = {PAD_ID, BEGIN, END} | {i for i, t in engine.get_added_tokens_decoder().items() if t.special}

    @classmethod
    def train(cls, kind: Kind, vocab_size: int, texts: Iterable[str]) -> "SubwordTokenizer":
        """Learns a vocabulary from texts."""
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        minimum = len(SPECIALS) + len(alphabet)
        if vocab_size < minimum:
            raise RegardError(f"a vocabulary of {vocab_size} cannot hold all bytes; choose {minimum} or more")
        engine = Engine(models.BPE() if kind == "bpe" else models.Unigram())
        # a space is prepended, so that a word has the same token at the beginning and in the middle of a text
        engine.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Prepend(" ")])
        # digits are separate tokens, so that any number can be copied, even an unseen one
        digits, bytes_ = pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)
        engine.pre_tokenizer = pre_tokenizers.Sequence([digits, bytes_])
        engine.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        make = trainers.BpeTrainer if kind == "bpe" else trainers.UnigramTrainer
        trainer = make(
            vocab_size=vocab_size, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False
        )
        engine.train_from_iterator(divided(texts, engine), trainer)
        return cls(engine)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The tokens of each text."""
        return self._ids(texts)

    def decode(self, sentences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sentence, without special tokens."""
        return self._texts(sentences)

    def words(self, tokens: Sequence[int]) -> list[int]:
        """The index of the word of each token; words are separated by whitespace, and -1 means no word.

        The words are those of the decoded text, which has no special tokens.
        """
        numbers, word, after_space = [], -1, True
        for token in tokens:
            if token in self._silent:
                numbers.append(-1)
                continue
            piece = (self.engine.id_to_token(token) or "").removeprefix(FOREIGN)
            first = next((i for i, letter in enumerate(piece) if letter not in self._spaces), None)
            if first is None:
                after_space = True
            elif first or after_space:
                word, after_space = word + 1, False
            numbers.append(-1 if first is None else word)
        return numbers

    def pieces(self, tokens: Sequence[int]) -> list[str]:
        """The text of each token on its own; bytes that are not a complete character become U+FFFD."""
        names = [(self.engine.id_to_token(token) or "").removeprefix(FOREIGN) for token in tokens]
        return [
            name if token in self._silent else self.engine.decoder.decode([name])
            for token, name in zip(tokens, names, strict=True)
        ]


@dataclass(frozen=True, kw_only=True)
class SubwordConfig(CodecConfig):
    """Byte-level subword tokenizer: BPE or unigram."""

    codec: ClassVar = SubwordTokenizer
    kind: Kind = "bpe"
    """Algorithm: byte pair encoding (BPE) or a unigram language model."""
    vocab_size: Positive = 8000
    """Vocabulary size, special tokens included."""
    joint: bool = True
    """Joint vocabulary: one for both languages, instead of one of this size for each."""

    def expected(self) -> dict[str, Any]:
        """The vocabulary size; the source's is left out if the vocabulary is joint."""
        return {"vocab_size": self.vocab_size, **({} if self.joint else {"source_vocab_size": self.vocab_size})}

    def make(self, examples: Mapping[str, CodecExamples], say: Say) -> dict[str, Any]:
        """Learns a tokenizer for each role, or a joint one."""
        say(f"learning a vocabulary of {self.vocab_size:,} tokens")
        texts = {role: islice(given.train(), SAMPLE) for role, given in examples.items()}
        if self.joint:
            together = chain.from_iterable(zip(*texts.values(), strict=True))
            return dict.fromkeys(texts, SubwordTokenizer.train(self.kind, self.vocab_size, together))
        return {role: SubwordTokenizer.train(self.kind, self.vocab_size, own) for role, own in texts.items()}

    @classmethod
    def of(cls, codecs: Sequence[Any]) -> Self:
        """A config that matches existing tokenizers, except for the kind, which is not stored."""
        return cls(vocab_size=codecs[-1].vocab_size, joint=codecs[0] is codecs[-1])
