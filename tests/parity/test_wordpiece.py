"""WordPiece, compared with the pure Python tokenizer of Hugging Face."""

import unicodedata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.codecs.wordpiece import BEGIN, END, MASK, PAD_TOKEN, UNKNOWN, WordPiece

pytest.importorskip("transformers")
from transformers.models.bert import tokenization_bert_legacy as legacy

# `tokenizers` has the categories of Unicode 8, Python those of 14 or later. They differ for marks, punctuation and
# invisible characters that are newer than Unicode 8, for unassigned characters, which only Python deletes, and for a
# few characters whose category has changed. The test uses the characters of Unicode 3.2 whose category has not changed,
# and emoji, which are neither marks nor punctuation. This also excludes the ideographs from U+2B820 to U+2B91F (of
# Unicode 8), which `tokenizers` does not separate from each other.
SAME: dict[str, list[str]] = {"emoji": [chr(number) for number in range(0x1F300, 0x1F650)]}
for letter in map(chr, (*range(0xD800), *range(0xE000, 0x110000))):
    category = unicodedata.category(letter)
    # only Python lowercases a capital sigma at the end of a word to ς instead of σ
    if category != "Cn" and category == unicodedata.ucd_3_2_0.category(letter) and letter != "Σ":
        SAME.setdefault(category, []).append(letter)
TEXT = st.text(st.one_of(st.sampled_from("aA bB .é["), *map(st.sampled_from, SAME.values())), max_size=30)

# every visible character except ideographs (too many) is in the vocabulary, so that [UNK] hides no difference
KNOWN = {*range(0x3400), *range(0xF900, 0x20000)}
SEEN = [letter for kind, letters in SAME.items() if kind[0] not in "CZ" for letter in letters if ord(letter) in KNOWN]
PIECES = ["play", "##ing", "##able", "un", "##aff", "The", "the", "Café", "cafe", "σς", "99"]
VOCABULARY = [PAD_TOKEN, UNKNOWN, "[unused0]", BEGIN, END, MASK, *SEEN, *(f"##{letter}" for letter in SEEN), *PIECES]

TEXTS = [
    "", " ", "The unaffable, playing UNAFFABLE!", "naïve café CAFÉ Ångström", "Straße STRASSE ẞ", "İstanbul ıI",
    "ﬁne ½ ²", "cafe\u0301 o\u0308\u0323 \u0301", "日本語のテキスト、中文。漢字abc", "豈 \U0002f800 \U00020000x",
    "カタカナ ｶﾞ が か\u3099", "한국어 문장 \u1112\u1161\u11ab", "😀👍🏽 👩‍👩‍👧 🇩🇪x",
    "“quotes” ‘x’ – — … ¿qué? «x» ‹y› 100€ $5 a+b=c", "a_b-c/d\\e@f#g ##ing", "\u0f0b\u0f0d ། ۔ ؟ 、 ・ ー",
    "x\x00y\x07z\ufffdw\x7f\x85v", "a\u200bb\u200cc\ufeffd\u00ade\u2060f", "tab\ttab\nline\r\nline\x0bv\x0cf",
    "a\u00a0b\u2003c\u3000d\u2028e\u2029f\u1680g", "a" * 100, "a" * 101, "é" * 100, "日" * 120,
    "x " + "b" * 200 + ", y", "3.14159 1,000,000 ٣٤٥ ४२ Ⅷ", "שָׁלוֹם עולם", "مرحبا بالعالم ﷺ \u202eabc\u202c",
    "हिन्दी भाषा", "ไทย ภาษา", "Ελληνικά γλώσσας", "Привет Йод Ё", "Ω Å K", "[MASK] [CLS]x[SEP]", "[mask]",
    "\U000f0000private\ue000", "\U0001d400\U0001d7d9",
]  # fmt: skip


@pytest.fixture(scope="module", params=["uncased", "cased"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    lowercase = request.param == "uncased"
    path: Path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in VOCABULARY), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        if not lowercase:
            # Hugging Face composes the text (NFC), which the original BERT and `tokenizers` do not;
            # if accents are removed, this makes no difference
            patch.setattr(
                legacy, "unicodedata", SimpleNamespace(category=unicodedata.category, normalize=keep_decomposed)
            )
        theirs = legacy.BertTokenizerLegacy(str(path), do_lower_case=lowercase)
        yield WordPiece.from_vocabulary(VOCABULARY, lowercase=lowercase), theirs


def keep_decomposed(form: str, text: str) -> str:
    return text if form == "NFC" else unicodedata.normalize(form, text)


def assert_same_tokens(both: tuple[WordPiece, Any], text: str, *, parse_specials: bool = False) -> None:
    ours, theirs = both
    (tokens,) = ours.encode([text], parse_specials=parse_specials)
    # `tokenize` does not pass on `split_special_tokens`
    pieces = theirs.tokenize(text) if parse_specials else theirs._tokenize(text, split_special_tokens=True)
    assert ours.pieces(tokens) == pieces
    assert tokens == theirs.convert_tokens_to_ids(pieces)


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_the_same_for_many_scripts_and_symbols(both, text) -> None:
    assert_same_tokens(both, text)
    assert_same_tokens(both, text, parse_specials=True)


@settings(max_examples=150)
@given(text=TEXT)
def test_tokens_are_the_same_for_any_text(both, text) -> None:
    assert_same_tokens(both, text)


def test_special_tokens_have_the_ids_of_the_vocabulary(both) -> None:
    ours, theirs = both
    assert [ours.pad, ours.unknown, ours.begin, ours.end, ours.mask] == theirs.convert_tokens_to_ids(
        [PAD_TOKEN, UNKNOWN, BEGIN, END, MASK]
    )
    assert ours.vocab_size == theirs.vocab_size


@pytest.mark.parametrize(("strip_accents", "chinese"), [(False, True), (True, True), (None, False)])
def test_tokens_are_the_same_with_other_settings(tmp_path: Path, strip_accents, chinese) -> None:
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in VOCABULARY), "utf-8")
    for lowercase in (True, False):
        theirs = legacy.BertTokenizerLegacy(
            str(tmp_path / "vocab.txt"), do_lower_case=lowercase, strip_accents=strip_accents,
            tokenize_chinese_chars=chinese,
        )  # fmt: skip
        options = {"lowercase": lowercase, "strip_accents": strip_accents, "chinese": chinese}
        ours = WordPiece.from_vocabulary(VOCABULARY, **options)
        for text in TEXTS:
            assert_same_tokens((ours, theirs), unicodedata.normalize("NFC", text))
