import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from regard.codecs import bpe
from regard.codecs.gpt2 import LETTERS, ByteBpe

ANY = st.text(st.characters(exclude_categories=["Cs"]))
# few characters, so that pairs are frequent, tied in frequency, and overlapping
FEW = st.text("aab  \n'st1.é日")
TEXTS = [
    "the child eats bread",
    "the children're eating bread, 1984 times",
    "aaaa aaa aaaaa",
    "  el niño…\n\n come 日本",
]
PAIRS = bpe.learn(60, [text.encode() for text in TEXTS])
BYTE_PAIRS = ByteBpe.train(256 + 60 + 1, TEXTS)


def pairs_of(tokenizer: ByteBpe) -> list[bpe.Pair]:
    model = json.loads(tokenizer.to_json())["model"]
    return [(model["vocab"][left], model["vocab"][right]) for left, right in model["merges"]]


def test_the_example_of_the_docstring_is_correct() -> None:
    pairs = bpe.learn(3, [b"low lower lowest"])
    assert [bpe.decode([256 + number], pairs) for number in range(3)] == [b"lo", b"low", b" low"]
    assert bpe.encode(b" lower", pairs) == [258, 68, 81]
    assert [bpe.decode([token], pairs) for token in (258, 68, 81)] == [b" low", b"e", b"r"]


def test_the_module_is_shorter_than_120_lines() -> None:
    assert len(Path(bpe.__file__).read_text("utf-8").splitlines()) < 120


@given(st.lists(st.one_of(FEW, ANY), max_size=4), st.integers(0, 40))
@example(["aaa aaaa aaaaa aaaaaa"], 20)
@example(["ab ba ab ba"], 3)
@example(TEXTS, 60)
def test_learned_merges_equal_those_of_the_fast_tokenizer(texts, most) -> None:
    fast = ByteBpe.train(256 + most + 1, texts)
    pairs = bpe.learn(most, [text.encode() for text in texts])
    assert pairs == pairs_of(fast)
    assert fast.vocab_size == 256 + len(pairs) + 1
    for text in texts:
        assert [bpe.encode(text.encode(), pairs)] == fast.encode([text])


@given(st.one_of(ANY, FEW, st.lists(st.sampled_from([*TEXTS, "'re", " ", "\u3000"])).map("".join)))
def test_encoding_equals_that_of_the_fast_tokenizer(text) -> None:
    assert pairs_of(BYTE_PAIRS) == PAIRS
    tokens = bpe.encode(text.encode(), PAIRS)
    assert [tokens] == BYTE_PAIRS.encode([text])
    assert bpe.decode(tokens, PAIRS) == BYTE_PAIRS.raw(tokens) == text.encode()


@given(
    st.one_of(
        st.binary(), st.lists(st.sampled_from([b"bread", b" ", b"\xff", b"\xed\xa0\x80", b"\xe6\x97"])).map(b"".join)
    )
)
def test_decoding_restores_any_bytes(text) -> None:
    assert bpe.decode(bpe.encode(text, PAIRS), PAIRS) == text
    pairs = bpe.learn(5, [text])
    assert bpe.decode(bpe.encode(text, pairs), pairs) == text


def test_invalid_utf_8_is_split_like_symbols() -> None:
    assert bpe.split(b"bread \xff\xfe! bread\x80\xe6\x97") == [b"bread", b" \xff\xfe!", b" bread", b"\x80\xe6\x97"]


def test_all_of_unicode_is_split_like_the_fast_tokenizer() -> None:
    truncated = pre_tokenizers.ByteLevel(add_prefix_space=False)
    # except planes without characters
    everything = "".join(map(chr, (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE0200))))
    words = [bytes(map(LETTERS.__getitem__, word)) for word, _ in truncated.pre_tokenize_str(everything)]
    assert bpe.split(everything.encode()) == words


def test_ties_are_resolved_by_the_lowest_ids() -> None:
    # each pair occurs once; a space is the lowest byte but has one of the highest ids
    assert bpe.learn(1, [b" b cad"]) == [(bpe.NUMBERS[ord("a")], bpe.NUMBERS[ord("d")])]
    assert bpe.learn(1, [b"ad\nac"]) == [(bpe.NUMBERS[ord("a")], bpe.NUMBERS[ord("c")])]


def test_learning_ends_when_every_word_is_one_token() -> None:
    assert len(bpe.learn(100, [b"low low"])) == 3
    assert bpe.learn(100, []) == []
    assert bpe.learn(0, [b"low"]) == []


def test_overlapping_pairs_are_merged_from_the_left() -> None:
    assert bpe.join([1, 1, 1, 2, 1, 1], (1, 1), 9) == [9, 1, 2, 9]


@pytest.mark.parametrize(("letter", "number"), [("!", 0), ("a", 64), ("~", 93), ("¡", 94), (" ", 220), ("\n", 198)])
def test_bytes_have_the_token_ids_of_gpt_2(letter, number) -> None:
    assert bpe.NUMBERS[ord(letter)] == number
