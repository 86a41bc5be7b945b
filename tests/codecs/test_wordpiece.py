import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, processors

from regard.codecs.wordpiece import BEGIN, END, MASK, PAD_TOKEN, UNKNOWN, WordPiece

SPECIALS = [PAD_TOKEN, UNKNOWN, BEGIN, END, MASK]
WORDS = ["the", "play", "plays", "##ing", "##ed", "un", "##s", "cafe", "日", "本", "[", "]", "mask", ".", ",", "a", "i"]
UNCASED = WordPiece.from_vocabulary([*SPECIALS, *WORDS])
CASED = WordPiece.from_vocabulary([*SPECIALS, "The", "the", "Café", "cafe"], lowercase=False)
TEXTS = ["the child eats bread", "the children are eating bread", "playing and played, plays!", "日本 Café"] * 3
TRAIN = "import sys; from regard.codecs.wordpiece import WordPiece; print(WordPiece.train(60, sys.argv[1:]).to_json())"


def pieces(text: str, tokenizer: WordPiece = UNCASED, *, parse_specials: bool = False) -> list[str]:
    (tokens,) = tokenizer.encode([text], parse_specials=parse_specials)
    return tokenizer.pieces(tokens)


def test_a_word_is_split_into_the_longest_pieces() -> None:
    assert pieces("playing playsed unplays") == ["play", "##ing", "plays", "##ed", UNKNOWN]


def test_an_uncased_tokenizer_removes_case_accents_and_spaces() -> None:
    assert UNCASED.lowercase
    assert pieces("\tThe  CAFÉ.") == ["the", "cafe", "."]


def test_a_cased_tokenizer_keeps_case_and_accents() -> None:
    assert not CASED.lowercase
    assert pieces("The the Café cafe café", CASED) == ["The", "the", "Café", "cafe", UNKNOWN]


def test_an_uncased_tokenizer_can_keep_accents() -> None:
    tokenizer = WordPiece.from_vocabulary([*SPECIALS, "café", "cafe"], strip_accents=False)
    assert pieces("CAFÉ CAFE", tokenizer) == ["café", "cafe"]


def test_every_chinese_character_is_a_word_by_default() -> None:
    assert pieces("日本") == ["日", "本"]
    together = WordPiece.from_vocabulary([*SPECIALS, "日", "##本"], chinese=False)
    assert pieces("日本", together) == ["日", "##本"]


def test_a_word_of_more_than_100_letters_is_unknown() -> None:
    tokenizer = WordPiece.from_vocabulary([*SPECIALS, "a", "##a"])
    assert pieces("a" * 100, tokenizer) == ["a"] + ["##a"] * 99
    assert pieces("a" * 101, tokenizer) == [UNKNOWN]


def test_special_tokens_in_a_text_are_plain_text_by_default() -> None:
    assert pieces("the [MASK].") == ["the", "[", "mask", "]", "."]
    assert pieces("[CLS] the [MASK]ing[PAD].", parse_specials=True) == [BEGIN, "the", MASK, UNKNOWN, PAD_TOKEN, "."]
    assert pieces("the [mask].", parse_specials=True) == ["the", "[", "mask", "]", "."]
    assert pieces("the [MASK].") == ["the", "[", "mask", "]", "."]  # also after an encoding with special tokens


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_no_text_is_encoded_as_special_tokens(text) -> None:
    (tokens,) = UNCASED.encode([text + MASK + text])
    assert not set(tokens) & (UNCASED.specials - {UNCASED.unknown})


def test_each_given_word_has_at_least_one_token() -> None:
    sentences = [["The", "plays", "\u200d", "playing.", "", "日本", "the cafe", MASK], [], ["zzz"]]
    first, empty, unknown = UNCASED.encode_words(sentences)
    assert UNCASED.pieces(first[0]) == (
        ["the", "plays", UNKNOWN, "play", "##ing", ".", UNKNOWN, "日", "本", "the", "cafe", "[", "mask", "]"]
    )
    assert first[1] == [0, 1, 2, 3, 3, 3, 4, 5, 5, 6, 6, 7, 7, 7]
    assert empty == ([], [])
    assert unknown == ([UNCASED.unknown], [0])


def test_decoding_shows_masks_and_unknown_words() -> None:
    (tokens,) = UNCASED.encode(["The playing, zzz [MASK]."], parse_specials=True)
    padded = [UNCASED.begin, *tokens, UNCASED.end, UNCASED.pad]
    assert UNCASED.decode([padded, []]) == ["the playing, [UNK] [MASK].", ""]
    assert UNCASED.pieces(padded)[0] == BEGIN


def test_tokens_have_the_index_of_their_word() -> None:
    (tokens,) = UNCASED.encode(["playing zzz, [MASK]"], parse_specials=True)
    (more,) = UNCASED.encode(["playsed"])
    sentence = [UNCASED.begin, *tokens, UNCASED.end, *more, UNCASED.end, UNCASED.pad]
    assert UNCASED.words(sentence) == [-1, 0, 0, 1, 2, 3, -1, 4, 4, -1, -1]
    assert UNCASED.spelled(sentence) == ("playing", UNKNOWN, ",", MASK, "playsed")


def test_a_continuation_piece_joins_a_mask_but_not_across_a_sentence_end() -> None:
    inside = UNCASED.engine.token_to_id("##ing")
    tokens = [UNCASED.begin, inside, UNCASED.end, inside, UNCASED.mask, inside]
    assert UNCASED.words(tokens) == [-1, 0, -1, 1, 2, 2]
    assert UNCASED.spelled(tokens) == ("##ing", "##ing", "[MASK]ing")


@given(st.lists(st.text("abcdefg", min_size=1), min_size=1))
def test_spelling_restores_words_of_known_letters(words) -> None:
    tokenizer = WordPiece.from_vocabulary([*SPECIALS, *"abcdefg", *(f"##{letter}" for letter in "abcdefg"), "abc"])
    ((tokens, numbers),) = tokenizer.encode_words([words])
    assert tokenizer.encode([" ".join(words)]) == [tokens]
    assert tokenizer.words(tokens) == numbers
    assert tokenizer.spelled(tokens) == tuple(words)
    assert tokenizer.decode([tokens]) == [" ".join(words)]


def test_training_learns_frequent_pieces_after_the_special_tokens() -> None:
    tokenizer = WordPiece.train(60, iter(TEXTS))
    assert tokenizer.vocab_size == 60
    assert tokenizer.pieces(range(5)) == SPECIALS
    assert (tokenizer.pad, tokenizer.unknown, tokenizer.begin, tokenizer.end, tokenizer.mask) == (0, 1, 2, 3, 4)
    assert tokenizer.specials == {0, 1, 2, 3, 4}
    assert {"the", "child", "bread"} <= set(tokenizer.pieces(range(60)))
    assert tokenizer.spelled(tokenizer.encode(["The bread, played"])[0]) == ("the", "bread", ",", "played")
    assert "C" in WordPiece.train(60, TEXTS, lowercase=False).pieces(range(60))


def test_training_is_deterministic_across_processes() -> None:
    # many pairs of these texts are equally frequent, and the library's order of letters differs between processes
    command = [sys.executable, "-c", TRAIN, *TEXTS]
    again = [subprocess.run(command, capture_output=True, encoding="utf-8", check=True) for _ in range(2)]
    assert {run.stdout.strip() for run in again} == {WordPiece.train(60, TEXTS).to_json()}


@pytest.mark.parametrize("tokenizer", [UNCASED, CASED])
def test_a_saved_tokenizer_loads_unchanged(tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    loaded = WordPiece.load(path)
    assert loaded.to_json() == tokenizer.to_json() == path.read_text("utf-8")
    assert (loaded.lowercase, loaded.vocab_size) == (tokenizer.lowercase, tokenizer.vocab_size)
    text = ["The Café playing [MASK]"]
    for parse_specials in (False, True):
        assert loaded.encode(text, parse_specials=parse_specials) == tokenizer.encode(
            text, parse_specials=parse_specials
        )


def test_truncation_and_padding_settings_in_a_tokenizer_file_are_ignored(tmp_path: Path) -> None:
    other = Tokenizer.from_str(UNCASED.to_json())
    other.add_tokens([AddedToken(MASK, special=False)])
    other.enable_truncation(3)
    other.enable_padding(pad_id=UNCASED.pad, pad_token=PAD_TOKEN, length=12)
    other.post_processor = processors.BertProcessing((END, UNCASED.end), (BEGIN, UNCASED.begin))
    other.decoder = None
    other.save(str(tmp_path / "tokenizer.json"))
    loaded = WordPiece.load(tmp_path / "tokenizer.json")
    texts = ["the playing, the [MASK]", "a"]
    for parse_specials in (False, True):
        assert loaded.encode(texts, parse_specials=parse_specials) == UNCASED.encode(
            texts, parse_specials=parse_specials
        )
    assert loaded.encode_words([texts]) == UNCASED.encode_words([texts])
    assert loaded.decode(loaded.encode(texts)) == UNCASED.decode(UNCASED.encode(texts))


def test_invalid_vocabularies_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"the vocabulary lacks \[CLS\], \[MASK\]; BERT needs \[PAD\], "):
        WordPiece.from_vocabulary([PAD_TOKEN, UNKNOWN, END, "the"])
    with pytest.raises(ValueError, match="line 8 of the vocabulary repeats 'the' of line 6; remove one"):
        WordPiece.from_vocabulary([*SPECIALS, "the", "a", "the"])
    with pytest.raises(
        ValueError, match="a vocabulary of 20 cannot hold all characters of the texts; choose 38 or more"
    ):
        WordPiece.train(20, TEXTS)
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a BERT tokenizer"):
        WordPiece.load(path)
    path.write_text(UNCASED.to_json().replace(MASK, "[HOLE]"))
    with pytest.raises(ValueError, match=r"tokenizer\.json: not a BERT tokenizer \(the vocabulary lacks \[MASK\]"):
        WordPiece.load(path)


def test_a_tokenizer_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="the tokenizer's model is BPE; expected WordPiece with the prefix '##'"):
        WordPiece(Tokenizer(models.BPE()))
    engine = Tokenizer.from_str(UNCASED.to_json())
    engine.normalizer = normalizers.Lowercase()
    with pytest.raises(ValueError, match=r"the tokenizer's normalizer is Lowercase\(\); expected BertNormalizer"):
        WordPiece(engine)
