import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.codecs.subword import BEGIN, END, PAD_ID, SubwordTokenizer
from regard.errors import RegardError

TEXTS = ["the child eats bread", "the children are eating bread", "el niño come pan", "los niños comen pan"] * 5
TOKENIZERS = {kind: SubwordTokenizer.train(kind, 300, TEXTS) for kind in ("bpe", "unigram")}  # type: ignore[arg-type]
KINDS = pytest.mark.parametrize("kind", TOKENIZERS)


@KINDS
@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("😀 日本語 العربية ▁ Ġ \t\n x")
@example("<pad> and </s> are only words")
@example("  two  spaces  ")
@example("")
def test_decoding_restores_any_text(kind, text) -> None:
    tokenizer = TOKENIZERS[kind]
    (tokens,) = tokenizer.encode([text])
    assert tokenizer.decode([tokens]) == [unicodedata.normalize("NFC", text)]
    assert not {PAD_ID, BEGIN, END} & set(tokens)


@KINDS
def test_a_word_has_the_same_tokens_at_the_beginning_and_in_the_middle(kind) -> None:
    one, two = TOKENIZERS[kind].encode(["bread", "the bread"])
    assert two[-len(one) :] == one


@KINDS
def test_case_is_kept_and_pieces_concatenate_to_the_text(kind) -> None:
    tokenizer = TOKENIZERS[kind]
    assert tokenizer.decode(tokenizer.encode(["The CHILD"])) == ["The CHILD"]
    (tokens,) = tokenizer.encode(["the child eats bread"])
    assert "".join(tokenizer.pieces(tokens)).replace(" ", "") == "thechildeatsbread"
    assert tokenizer.pieces([BEGIN, *tokens[:0], END]) == ["<s>", "</s>"]


@KINDS
def test_padding_begin_and_end_tokens_are_not_decoded(kind) -> None:
    tokenizer = TOKENIZERS[kind]
    (tokens,) = tokenizer.encode(["el niño"])
    assert tokenizer.decode([[BEGIN, *tokens, END, PAD_ID, PAD_ID]]) == ["el niño"]


@KINDS
def test_a_saved_tokenizer_loads_unchanged(kind, tmp_path: Path) -> None:
    TOKENIZERS[kind].save(tmp_path / "tokenizer.json")
    loaded = SubwordTokenizer.load(tmp_path / "tokenizer.json")
    text = ["<pad> los niños 😀"]
    assert loaded.encode(text) == TOKENIZERS[kind].encode(text)
    assert loaded.vocab_size == TOKENIZERS[kind].vocab_size <= 300


def test_too_small_a_vocabulary_and_an_invalid_file_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a vocabulary of 100 cannot hold all bytes; choose 259 or more"):
        SubwordTokenizer.train("bpe", 100, TEXTS)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer"):
        SubwordTokenizer.load(tmp_path / "tokenizer.json")


@KINDS
@given(text=st.text(alphabet=st.sampled_from("ab 1é\n\t\u00a0“漢.")))
def test_tokens_are_assigned_to_words_separated_by_spaces(kind, text) -> None:
    tokenizer = TOKENIZERS[kind]
    (tokens,) = tokenizer.encode([text])
    words: dict[int, list[int]] = {}
    for token, number in zip(tokens, tokenizer.words(tokens), strict=True):
        words.setdefault(number, []).append(token)
    (normal,) = tokenizer.decode([tokens])
    words.pop(-1, None)
    assert list(words) == list(range(len(words)))
    assert [tokenizer.decode([part])[0].strip(" \t\n") for part in words.values()] == [
        word.decode() for word in normal.encode().split()
    ]


def test_a_lone_surrogate_is_reported() -> None:
    tokenizer = SubwordTokenizer.train("bpe", 300, ["a text"])
    with pytest.raises(RegardError, match=r"character 2 of the text is the lone surrogate '\\udcff'"):
        tokenizer.encode(["fine", "a\udcff"])
