"""WordPiece against the pure Python one of Hugging Face."""

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

# `tokenizers` has the categories of Unicode 8, Python those of 14 or later: a mark, a punctuation or an invisible
# character that is younger than 8 is a letter to the one and not to the other, one that is yet to come is deleted by
# Python alone, and a few have changed their category. So: the characters of Unicode 3.2, which Python has as
# well, that are today what they were then, and emoji, which are neither marks nor punctuation. Ideographs from U+2B820
# to U+2B91F (of Unicode 8), which `tokenizers` forgets to part from each other, are out by the same rule.
SAME: dict[str, list[str]] = {"emoji": [chr(number) for number in range(0x1F300, 0x1F650)]}
for letter in map(chr, (*range(0xD800), *range(0xE000, 0x110000))):
    category = unicodedata.category(letter)
    # Python alone looks where in a word a big sigma is: at the end it becomes ς, not σ
    if category != "Cn" and category == unicodedata.ucd_3_2_0.category(letter) and letter != "Σ":
        SAME.setdefault(category, []).append(letter)
TEXT = st.text(st.one_of(st.sampled_from("aA bB .é["), *map(st.sampled_from, SAME.values())), max_size=30)

# every visible character but ideographs (too many) is known, so that no difference hides behind [UNK]
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
            # Hugging Face's brings text into the composed form, which neither BERT's own nor `tokenizers` does;
            # where accents are removed, it makes no difference.
            patch.setattr(legacy, "unicodedata", SimpleNamespace(category=unicodedata.category, normalize=no_composing))
        theirs = legacy.BertTokenizerLegacy(str(path), do_lower_case=lowercase)
        yield WordPiece.from_vocabulary(VOCABULARY, lowercase=lowercase), theirs


def no_composing(form: str, text: str) -> str:
    return text if form == "NFC" else unicodedata.normalize(form, text)


def assert_same_tokens(both: tuple[WordPiece, Any], text: str, *, orders: bool = False) -> None:
    ours, theirs = both
    (tokens,) = ours.encode([text], orders=orders)
    # `tokenize` does not hand on that special tokens are text
    pieces = theirs.tokenize(text) if orders else theirs._tokenize(text, split_special_tokens=True)
    assert ours.pieces(tokens) == pieces
    assert tokens == theirs.convert_tokens_to_ids(pieces)


@pytest.mark.parametrize("text", TEXTS)
def test_tokens_are_the_same_for_texts_of_many_kinds(both, text) -> None:
    assert_same_tokens(both, text)
    assert_same_tokens(both, text, orders=True)


@settings(max_examples=150)
@given(text=TEXT)
def test_tokens_are_the_same_for_any_text(both, text) -> None:
    assert_same_tokens(both, text)


def test_special_tokens_have_the_numbers_of_the_vocabulary(both) -> None:
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
