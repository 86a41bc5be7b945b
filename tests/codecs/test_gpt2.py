import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

from regard.codecs.gpt2 import END, LETTERS, ByteBpe, CharacterTokenizer, LosslessTokenizer

TEXTS = ["the child eats bread", "the children are eating bread", "el niño come pan", "los niños comen pan"] * 3
BYTE_PAIRS = ByteBpe.train(290, TEXTS)
CHARACTERS = CharacterTokenizer.learn(["ab 1é\n\t", "\u00a0“漢.😀"])
KNOWN = st.text("ab 1é\n\t\u00a0“漢.😀")
EACH = pytest.mark.parametrize("tokenizer", [BYTE_PAIRS, CHARACTERS], ids=["byte pairs", "characters"])
TRAIN = "import sys; from regard.codecs.gpt2 import ByteBpe; print(ByteBpe.train(290, sys.argv[1:]).to_json())"

ENCODER = {letter: number for number, letter in enumerate(LETTERS)} | {"th": 256, "the": 257, "Ġthe": 258, END: 259}
PAIRS = ["t h", "th e", "Ġ the"]
Files = Callable[..., tuple[Path, Path]]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Writes vocabulary and merge files in the format of GPT-2."""

    def write(encoder: Any = ENCODER, pairs: list[str] = PAIRS, version: str = "#version: 0.2") -> tuple[Path, Path]:
        (tmp_path / "encoder.json").write_text(json.dumps(encoder), "utf-8")
        (tmp_path / "vocab.bpe").write_text("\n".join([version, *pairs, ""]), "utf-8")
        return tmp_path / "encoder.json", tmp_path / "vocab.bpe"

    return write


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("😀 日本語 العربية ▁ Ġ \t\r\n x  \0\x85\u2028")
@example(f"{END} is thirteen characters, {END}")
@example("  two  spaces  ")
@example("cafe\u0301 café ﬁ")
@example("")
def test_decoding_restores_any_text(text) -> None:
    (tokens,) = BYTE_PAIRS.encode([text])
    assert BYTE_PAIRS.decode([tokens]) == [text]
    assert BYTE_PAIRS.raw(tokens) == text.encode()
    assert BYTE_PAIRS.end not in tokens


@given(KNOWN)
def test_decoding_restores_any_text_of_known_characters(text) -> None:
    (tokens,) = CHARACTERS.encode([text])
    assert CHARACTERS.decode([tokens]) == [text]
    assert CHARACTERS.raw(tokens) == text.encode()
    assert "".join(CHARACTERS.pieces(tokens)) == text
    assert CHARACTERS.engine.encode(text).ids == tokens  # other readers of the file get the same tokens
    assert CHARACTERS.engine.decode(tokens) == text


@EACH
@given(text=KNOWN)
def test_tokens_are_assigned_to_words_separated_by_spaces(tokenizer, text) -> None:
    (tokens,) = tokenizer.encode([text])
    numbers = tokenizer.words(tokens)
    assert tokenizer.spelled(tokens) == tuple(word.decode() for word in text.encode().split())
    assert list(dict.fromkeys(number for number in numbers if number >= 0)) == list(range(len(text.encode().split())))
    for token, number in zip(tokens, numbers, strict=True):
        assert (number == -1) == (not tokenizer.raw([token]).strip())


def test_a_token_with_a_leading_space_starts_a_word() -> None:
    (tokens,) = BYTE_PAIRS.encode(["the bread\n bread"])
    assert BYTE_PAIRS.pieces(tokens) == ["the", " bread", "\n", " bread"]
    assert BYTE_PAIRS.words(tokens) == [0, 1, -1, 2]
    assert BYTE_PAIRS.spelled(tokens) == ("the", "bread", "bread")


def test_the_end_of_a_document_ends_a_word() -> None:
    (bread,) = BYTE_PAIRS.encode(["bread"])
    document = [*bread, BYTE_PAIRS.end, *bread]
    assert BYTE_PAIRS.spelled(document) == ("bread", "bread")
    assert BYTE_PAIRS.words(document) == [0] * len(bread) + [-1] + [1] * len(bread)


@EACH
def test_texts_are_encoded_independently(tokenizer) -> None:
    texts = ["a b", "", " b", "b\n"]
    assert tokenizer.encode(texts) == [tokenizer.encode([text])[0] for text in texts]
    assert tokenizer.decode(tokenizer.encode(texts)) == texts
    assert tokenizer.encode([]) == tokenizer.decode([]) == []


def test_pieces_show_incomplete_characters_as_replacement_characters() -> None:
    tokens = BYTE_PAIRS.encode(["日x\n"])[0]
    assert BYTE_PAIRS.pieces(tokens) == ["\ufffd", "\ufffd", "\ufffd", "x", "\n"]
    assert [BYTE_PAIRS.raw([token]) for token in tokens] == [b"\xe6", b"\x97", b"\xa5", b"x", b"\n"]
    assert BYTE_PAIRS.decode([tokens[:2], tokens[1:]]) == ["\ufffd", "\ufffd\ufffdx\n"]


@EACH
def test_tokens_beyond_the_vocabulary_decode_to_nothing(tokenizer) -> None:
    (tokens,) = tokenizer.encode(["a"])
    strange = [tokenizer.vocab_size, *tokens, 10**12, -1]
    assert tokenizer.decode([strange]) == ["a"]
    assert tokenizer.raw(strange) == b"a"
    assert tokenizer.pieces(strange) == ["", "a", "", ""]
    assert tokenizer.words(strange) == [-1, 0, -1, -1]
    assert tokenizer.spelled(strange) == ("a",)


def test_the_end_token_has_the_last_id_and_is_not_decoded() -> None:
    end = BYTE_PAIRS.end
    assert end == BYTE_PAIRS.begin == BYTE_PAIRS.vocab_size - 1
    (tokens,) = BYTE_PAIRS.encode(["el niño"])
    assert BYTE_PAIRS.decode([[end, *tokens, end]]) == ["el niño"]
    assert BYTE_PAIRS.raw([end]) == b""
    assert BYTE_PAIRS.pieces([end]) == [END]


def test_the_begin_token_of_a_character_tokenizer_is_a_line_break_if_known() -> None:
    assert (CHARACTERS.end, CHARACTERS.pieces([CHARACTERS.begin])) == (None, ["\n"])
    assert CharacterTokenizer.learn(["ba"]).begin == 0


def test_the_begin_token_without_an_end_token_is_a_line_break(files) -> None:
    tokenizer = ByteBpe.from_files(*files({token: number for token, number in ENCODER.items() if token != END}))
    assert (tokenizer.end, tokenizer.pieces([tokenizer.begin])) == (None, ["\n"])


def test_training_learns_frequent_words_up_to_the_vocabulary_size() -> None:
    assert BYTE_PAIRS.vocab_size == 290
    assert {" bread", "the", " child", "n"} <= set(BYTE_PAIRS.pieces(range(290)))
    assert ByteBpe.train(257, TEXTS).vocab_size == 257
    assert ByteBpe.train(5000, ["the the"]).vocab_size == 256 + 3 + 1  # th, the, " the": there are no more pairs
    assert ByteBpe.train(5000, []).vocab_size == 257


def test_training_is_deterministic_across_processes() -> None:
    command = [sys.executable, "-c", TRAIN, *TEXTS]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", check=True)
    assert run.stdout.strip() == BYTE_PAIRS.to_json()


def test_character_vocabularies_are_sorted_by_code_point() -> None:
    tokenizer = CharacterTokenizer.learn(iter(["ba😀", "", "é\nab"]))
    assert tokenizer.pieces(range(tokenizer.vocab_size)) == ["\n", "a", "b", "é", "😀"]


@EACH
@pytest.mark.parametrize("by_name", [True, False])
def test_a_saved_tokenizer_loads_unchanged(tokenizer, by_name, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = type(tokenizer).load(path) if by_name else LosslessTokenizer.load(path)
    assert type(loaded) is type(tokenizer)
    assert loaded.to_json() == tokenizer.to_json() == path.read_text("utf-8")
    assert (loaded.begin, loaded.end, loaded.vocab_size) == (tokenizer.begin, tokenizer.end, tokenizer.vocab_size)
    assert loaded.encode(["ab 1é\n😀"]) == tokenizer.encode(["ab 1é\n😀"])


@EACH
def test_a_tokenizer_can_be_pickled(tokenizer) -> None:
    assert pickle.loads(pickle.dumps(tokenizer)).encode(["a b"]) == tokenizer.encode(["a b"])


def test_the_vocabulary_and_merge_files_of_gpt_2_are_loaded(files) -> None:
    tokenizer = ByteBpe.from_files(*files())
    assert tokenizer.encode(["the the then", f"th{END}"])[0] == [257, 258, 258, ENCODER["n"]]
    assert tokenizer.encode(["th" + END])[0][0] == 256
    assert (tokenizer.vocab_size, tokenizer.end) == (260, 259)
    assert tokenizer.decode(tokenizer.encode(["the 日本"])) == ["the 日本"]


def test_a_merge_list_may_start_with_a_merge_that_looks_like_a_version(files) -> None:
    tokenizer = ByteBpe.from_files(*files({**ENCODER, "##": 260}, version="# #"))
    assert tokenizer.encode(["the##"]) == [[257, 260]]


def test_merge_files_with_windows_line_ends_are_loaded(files) -> None:
    encoder_json, vocab_bpe = files()
    vocab_bpe.write_bytes(vocab_bpe.read_bytes().replace(b"\n", b"\r\n"))
    assert ByteBpe.from_files(encoder_json, vocab_bpe).encode(["the"]) == [[257]]


def without(token: str) -> dict[str, int]:
    """The vocabulary without a token, renumbered without a gap."""
    return {name: number for number, name in enumerate(name for name in ENCODER if name != token)}


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ([], r"encoder\.json: expected a JSON object with the id of each token"),
        ({**ENCODER, "a": "1"}, r"encoder\.json: the id of the token 'a' is '1'; expected 0, 1, 2"),
        ({**ENCODER, "a": True}, r"encoder\.json: the id of the token 'a' is True"),
        ({**ENCODER, "a": [1]}, r"encoder\.json: the id of the token 'a' is \[1\]"),
        ({**ENCODER, END: 261}, r"encoder\.json: no token has the id 259; ids of 260 tokens must be 0 to 259"),
        ({**ENCODER, END: 7}, r"encoder\.json: no token has the id 259"),
        ({**ENCODER, END: -1}, r"encoder\.json: no token has the id 259"),
        ({**ENCODER, END: 2**70}, r"encoder\.json: no token has the id 259"),
        (without("a"), r"encoder\.json: 1 of the 256 bytes have no token, the first is 0x61"),
        ({}, r"encoder\.json: 256 of the 256 bytes have no token, the first is 0x00"),
        (without("the"), r"vocab\.bpe, line 3: .*encoder\.json has no token 'the'; use files of one model"),
    ],
)
def test_an_invalid_vocabulary_is_reported(files, encoder, message) -> None:
    with pytest.raises(ValueError, match=message):
        ByteBpe.from_files(*files(encoder))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (["t h", "the"], r"vocab\.bpe, line 3: 'the' is not two tokens separated by a space"),
        (["t h e"], r"vocab\.bpe, line 2: 't h e' is not two tokens"),
        (["t "], r"vocab\.bpe, line 2: 't ' is not two tokens"),
        ([" t"], r"vocab\.bpe, line 2: ' t' is not two tokens"),
        (["t h", "to e"], r"vocab\.bpe, line 3: .*encoder\.json has no token 'to'"),
        (["t h", "#version: 0.2"], r"vocab\.bpe, line 3: .*encoder\.json has no token '#version:'"),
    ],
)
def test_an_invalid_merge_list_is_reported(files, pairs, message) -> None:
    with pytest.raises(ValueError, match=message):
        ByteBpe.from_files(*files(pairs=pairs))


def test_damaged_files_are_reported(files) -> None:
    encoder_json, vocab_bpe = files()
    vocab_bpe.write_bytes(b"#version: 0.2\nt \xff\n")
    with pytest.raises(ValueError, match=r"vocab\.bpe, line 2: not UTF-8 \(bytes ff\)"):
        ByteBpe.from_files(encoder_json, vocab_bpe)
    for damaged in (b'{"a": 0', b'{"\xff": 0}'):
        encoder_json.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"encoder\.json: damaged, not valid JSON"):
            ByteBpe.from_files(encoder_json, vocab_bpe)


def test_too_small_a_vocabulary_is_an_error_with_the_minimum() -> None:
    with pytest.raises(ValueError, match=r"a vocabulary of 256 cannot hold all bytes and <\|endoftext\|>; choose 257"):
        ByteBpe.train(256, TEXTS)


def test_a_lone_surrogate_is_an_error_with_its_position() -> None:
    with pytest.raises(
        ValueError, match=r"character 3 of the text is the lone surrogate '\\udcff'; decode the text as"
    ):
        BYTE_PAIRS.encode(["fine", "ab\udcff"])


def test_unknown_characters_are_reported() -> None:
    with pytest.raises(ValueError, match=r"not in the vocabulary of 12: 'Z', '\\udcff'\. Remove them, or train on a"):
        CHARACTERS.encode(["ab", "Z\udcff aZ"])
    with pytest.raises(ValueError, match=r"not in the vocabulary of 12: 'A', 'B', 'C', 'D', 'E' and 2 more"):
        CHARACTERS.encode(["GFEDCBA"])


def test_a_character_vocabulary_of_empty_text_is_an_error() -> None:
    with pytest.raises(ValueError, match="the text is empty; there are no characters to learn"):
        CharacterTokenizer.learn(["", ""])


def test_truncation_and_padding_settings_in_a_tokenizer_file_are_ignored(tmp_path: Path) -> None:
    other = Tokenizer.from_str(BYTE_PAIRS.to_json())
    other.add_tokens([AddedToken(END, special=False)])
    other.enable_truncation(3)
    other.enable_padding(pad_id=0, pad_token="!", length=12)
    other.post_processor = processors.TemplateProcessing(f"{END} $A", special_tokens=[(END, BYTE_PAIRS.end)])
    other.decoder = None
    other.save(str(tmp_path / "tokenizer.json"))
    loaded = LosslessTokenizer.load(tmp_path / "tokenizer.json")
    texts = [f"the child eats {END} niños", "a"]
    assert loaded.encode(texts) == BYTE_PAIRS.encode(texts)
    assert loaded.decode(loaded.encode(texts)) == texts
    assert loaded.raw([loaded.end]) == b""


def test_added_tokens_are_encoded_and_decoded() -> None:
    engine = Tokenizer.from_str(BYTE_PAIRS.to_json())
    engine.add_special_tokens(["<|pad|>"])
    engine.add_tokens(["é!"])
    tokenizer = ByteBpe(engine)
    assert tokenizer.vocab_size == 292
    assert tokenizer.pieces([290, 291]) == ["<|pad|>", "é!"]
    assert tokenizer.decode([[290, 291]]) == ["é!"]
    assert tokenizer.decode(tokenizer.encode(["é! <|pad|>"])) == ["é! <|pad|>"]
    assert tokenizer.encode(["é!"]) == [[291]]


def test_a_token_that_is_not_byte_level_is_decoded_as_text(files) -> None:
    tokenizer = ByteBpe.from_files(*files({**ENCODER, "日é": 260}))
    assert tokenizer.decode([[260]]) == ["日é"]


def test_tokenizers_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    CHARACTERS.save(path)
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a GPT-2 tokenizer \(.* model is WordLevel; expected"):
        ByteBpe.load(path)
    BYTE_PAIRS.save(path)
    with pytest.raises(
        ValueError, match=r"tokenizer\.json: not a character-level tokenizer \(.*model is BPE; expected"
    ):
        CharacterTokenizer.load(path)
    path.write_text(Tokenizer(models.Unigram()).to_str())
    with pytest.raises(
        ValueError, match=r"tokenizer\.json: not a tokenizer of a language model \(.*model is Unigram; expected"
    ):
        LosslessTokenizer.load(path)
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a tokenizer of a language model"):
        LosslessTokenizer.load(path)
    path.write_text(Tokenizer(models.WordLevel({"a": 0, "the": 1})).to_str())
    with pytest.raises(ValueError, match="the vocabulary contains 'the', which is not a single character"):
        LosslessTokenizer.load(path)


def changed(name: str, value: Any) -> Tokenizer:
    engine = Tokenizer.from_str(BYTE_PAIRS.to_json())
    setattr(engine, name, value)
    return engine


@pytest.mark.parametrize(
    "engine",
    [
        changed("normalizer", normalizers.NFC()),
        changed("pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=True)),
        changed("pre_tokenizer", pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)),
        changed("pre_tokenizer", pre_tokenizers.Whitespace()),
        changed("pre_tokenizer", None),
    ],
)
def test_a_tokenizer_with_another_normalizer_or_pre_tokenizer_is_refused(engine) -> None:
    with pytest.raises(ValueError, match=r"GPT-2's are None and ByteLevel\(add_prefix_space=False"):
        ByteBpe(engine)


def test_a_tokenizer_with_missing_bytes_or_ids_is_refused() -> None:
    engine = changed("model", models.BPE({"a": 0}, []))
    with pytest.raises(ValueError, match="255 of the 256 bytes have no token, the first is 0x00"):
        ByteBpe(engine)
    with pytest.raises(ValueError, match="no token has the id 1; ids of 2 tokens must be 0 to 1"):
        CharacterTokenizer(Tokenizer(models.WordLevel({"a": 0, "b": 2})))


def test_vocabulary_files_may_have_the_names_of_hugging_face_or_openai(files, tmp_path: Path) -> None:
    encoder_json, vocab_bpe = files()
    assert ByteBpe.from_folder(tmp_path).encode(["the"]) == [[257]]
    encoder_json.rename(tmp_path / "vocab.json")
    with pytest.raises(ValueError, match=r"has neither vocab\.json with merges\.txt nor encoder\.json with vocab\.bpe"):
        ByteBpe.from_folder(tmp_path)
    vocab_bpe.rename(tmp_path / "merges.txt")
    assert ByteBpe.from_folder(tmp_path).encode(["the"]) == [[257]]
