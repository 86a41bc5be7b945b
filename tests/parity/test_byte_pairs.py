"""GPT-2 tokens, compared with the algorithm of its authors rewritten in plain Python."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from regard.codecs.gpt2 import END, ByteBpe

regex: Any = pytest.importorskip("regex")

PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
TEXTS = [
    "The quick brown fox jumps over the lazy dog; it's what we've been told, isn't it? They'll say I'm wrong.",
    "El niño come pan. Où est le garçon? Straße, œuvre, ŁÓDŹ. Привет, мир! Γειά σου Κόσμε",
    "日本語のテキスト、中文。漢字 한국어 문장 ไทย हिन्दी भाषा مرحبا بالعالم שָׁלוֹם",
    "def f(x):\n    return x ** 2\n\n\n\tif x >= 1984:  # twice\r\n        pass   \n",
    "3.14159 1,000,000 ٣٤٥ ½ ² Ⅷ 😀👍🏽 👩‍👩‍👧 🇩🇪",
]
# except planes without characters and private use planes
EVERYTHING = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE0200))))


def of_engine(pattern: str) -> set[str]:
    """The characters that the regular expressions of `tokenizers` match."""
    others = pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(EVERYTHING)
    return set(EVERYTHING).difference(*(EVERYTHING[begin:end] for _, (begin, end) in others))


# the two libraries have different versions of Unicode: a character that only one of them knows as a letter is new
KINDS = (r"\p{L}", r"\p{N}", r"\s")
DISPUTED = set[str]().union(*(of_engine(kind) ^ set(regex.findall(kind, EVERYTHING)) for kind in KINDS))
ANY = st.characters(exclude_categories=["Cs"]).filter(lambda letter: letter not in DISPUTED)
WRITTEN = st.sampled_from(
    [*"aeinorst  '.,1\n\t\r\u00a0\u3000\u0301\u200d", "'ll", "'S", "the", END, "ing", "niño", "日本"]
)
TEXT = st.one_of(st.text(ANY), st.lists(st.one_of(WRITTEN, ANY), max_size=30).map("".join))


class Original:
    """The algorithm of the authors' code, step by step."""

    def __init__(self, encoder_json: Path, vocab_bpe: Path) -> None:
        self.numbers = json.loads(encoder_json.read_text("utf-8"))
        pairs = [tuple(line.split()) for line in vocab_bpe.read_text("utf-8").split("\n")[1:-1]]
        self.ranks = {pair: rank for rank, pair in enumerate(pairs)}
        visible = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
        self.letters = {byte: chr(byte) for byte in visible}
        for byte in range(256):
            if byte not in self.letters:
                self.letters[byte] = chr(256 + len(self.letters) - len(visible))

    def encode(self, text: str) -> list[int]:
        tokens = []
        for word in regex.findall(PATTERN, text):
            tokens += self.merged([self.letters[byte] for byte in word.encode()])
        return [self.numbers[token] for token in tokens]

    def merged(self, parts: list[str]) -> list[str]:
        while pairs := [pair for pair in pairwise(parts) if pair in self.ranks]:
            left, right = min(pairs, key=self.ranks.__getitem__)
            at = 0
            while at < len(parts) - 1:
                if (parts[at], parts[at + 1]) == (left, right):
                    parts[at : at + 2] = [left + right]
                at += 1
        return parts


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[ByteBpe, Original]:
    """A small vocabulary, in files in the format of GPT-2."""
    model = json.loads(ByteBpe.train(700, TEXTS).to_json())["model"]
    folder = tmp_path_factory.mktemp("vocabulary")
    encoder_json, vocab_bpe = folder / "encoder.json", folder / "vocab.bpe"
    encoder_json.write_text(json.dumps(model["vocab"] | {END: len(model["vocab"])}), "utf-8")
    vocab_bpe.write_text("\n".join(["#version: 0.2", *map(" ".join, model["merges"])]) + "\n", "utf-8")
    return ByteBpe.from_files(encoder_json, vocab_bpe), Original(encoder_json, vocab_bpe)


@settings(max_examples=200)
@given(text=TEXT)
@example("".join(TEXTS))
@example(f"it's{END}'S 'Tis don't  \n\n  we'll\u00a0 've")
@example("aaaaaaaaa aaaaaa  tttttthhhh")
def test_tokens_equal_those_of_the_original_algorithm(both, text) -> None:
    ours, original = both
    (tokens,) = ours.encode([text])
    assert tokens == original.encode(text)
    assert ours.end not in tokens
    assert ours.decode([tokens]) == [text]


def test_all_of_unicode_is_split_into_the_same_words(both) -> None:
    ours, original = both
    assert of_engine(r"\p{Cn}") | set(regex.findall(r"\p{Cn}", EVERYTHING)) >= DISPUTED
    text = "".join(letter for letter in EVERYTHING if letter not in DISPUTED)
    words = ["".join(original.letters[byte] for byte in word.encode()) for word in regex.findall(PATTERN, text)]
    assert [word for word, _ in ours.engine.pre_tokenizer.pre_tokenize_str(text)] == words
