"""Learning a vocabulary divides very long words and texts, and leaves all others as they are."""

import pytest

from regard.codecs.gpt2 import ByteBpe
from regard.codecs.long_words import MAX_TEXT, MAX_WORD, divided
from regard.codecs.subword import SubwordTokenizer
from regard.codecs.wordpiece import WordPiece
from regard.data.corpus import MAX_CHARACTERS, chunks

ORDINARY = [
    "the child eats bread, and the dog too",
    "El niño come pan 3 veces " * 30,
    "孩子们在吃面包，狗也在吃。" * 200,  # no spaces, but signs
    "word " * 5000,
    "a" * (MAX_WORD - 1),  # a space may come before a word
    "",
]
TOKENIZERS = {
    "bpe": lambda texts: SubwordTokenizer.train("bpe", 300, texts),
    "unigram": lambda texts: SubwordTokenizer.train("unigram", 300, texts),
    "byte pairs": lambda texts: ByteBpe.train(300, texts),
    "wordpiece": lambda texts: WordPiece.train(300, texts),
}
ENGINES = {name: train(["a b"]).engine for name, train in TOKENIZERS.items()}
tokenizers = pytest.mark.parametrize("name", TOKENIZERS)


def longest_word(text: str, name: str) -> int:
    engine = ENGINES[name]
    normalized = engine.normalizer.normalize_str(text) if engine.normalizer else text
    return max(end - begin for _, (begin, end) in engine.pre_tokenizer.pre_tokenize_str(normalized))


@tokenizers
def test_ordinary_texts_are_unchanged(name) -> None:
    assert list(divided(ORDINARY, ENGINES[name])) == ORDINARY


@tokenizers
@pytest.mark.parametrize("letter", ["a", "é", "字", "7", "-", " ", "\n"])
def test_no_word_is_longer_than_the_maximum(name, letter) -> None:
    text = "a word, " + letter * 3500 + " and another"
    if longest_word(text, name) <= MAX_WORD:  # for some tokenizers, each such sign is a word
        assert list(divided([text], ENGINES[name])) == [text]
        return
    parts = list(divided([text], ENGINES[name]))
    assert all(longest_word(part, name) <= MAX_WORD + 1 for part in parts)
    assert "".join(parts).count("e" if (letter, name) == ("é", "wordpiece") else letter) >= 3500


@tokenizers
def test_a_vocabulary_is_learned_from_a_text_without_spaces(name) -> None:
    text = "".join(chr(97 + (i * i // 7) % 10) for i in range(400_000))
    assert TOKENIZERS[name]([text[: 10_000 if name == "unigram" else None]]).encode(["abc"])


def test_very_long_texts_are_divided_at_a_space() -> None:
    text = "some words " * (MAX_TEXT // 4)
    parts = list(divided([text], ENGINES["byte pairs"]))
    assert "".join(parts) == text
    assert max(map(len, parts)) < MAX_TEXT + len("some words ")
    assert all(part.startswith(" ") for part in parts[1:])


def test_pairs_far_beyond_the_maximum_length_are_not_encoded() -> None:
    class Recorder:
        def encode(self, texts: list[str]) -> list[list[int]]:
            self.longest = max(map(len, texts), default=0)
            return [[1] for _ in texts]

    source, target = Recorder(), Recorder()
    limit = 8 * MAX_CHARACTERS
    pairs = [("a", "b" * limit), ("a", "b" * (limit + 1)), ("a" * 10**6, "b"), ("a", " ")]
    (chunk,) = chunks(pairs, source, target, max_length=8)  # type: ignore[arg-type]
    assert (len(chunk.tokens), chunk.long, chunk.empty) == (1, 2, 1)
    assert (source.longest, target.longest) == (1, limit)
