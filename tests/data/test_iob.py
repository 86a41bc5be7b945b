import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.conllu import Sentence
from regard.data.iob import has_spans, sentences, to_iob2

IOB1 = """-DOCSTART- -X- -X- O

EU NNP I-NP I-ORG
rejects VBZ I-VP O
German JJ I-NP I-MISC
Dutch JJ B-NP B-MISC
call NN I-NP O

Peter NNP I-NP I-PER
Blackburn NNP I-NP I-PER
Paris NNP I-NP I-LOC
"""
EXPECTED = [
    Sentence(("EU", "rejects", "German", "Dutch", "call"), ("B-ORG", "O", "B-MISC", "B-MISC", "O")),
    Sentence(("Peter", "Blackburn", "Paris"), ("B-PER", "I-PER", "B-LOC")),
]


def test_iob1_and_iob2_are_read_alike(tmp_path: Path) -> None:
    (tmp_path / "a.iob").write_bytes(IOB1.replace("\n", "\r\n").encode())
    iob2 = "".join(
        "".join(f"{word}\t{tag}\n" for word, tag in zip(*sentence, strict=True)) + " \n\n" for sentence in EXPECTED
    )
    (tmp_path / "b.iob.gz").write_bytes(gzip.compress(iob2.encode()))
    assert list(sentences(tmp_path / "a.iob")) == list(sentences(tmp_path / "b.iob.gz")) == EXPECTED


def test_another_column_may_hold_the_tags(tmp_path: Path) -> None:
    (tmp_path / "a.iob").write_text(IOB1)
    assert next(sentences(tmp_path / "a.iob", 2)).tags == ("NNP", "VBZ", "JJ", "JJ", "NN")
    assert next(sentences(tmp_path / "a.iob", 3)).tags == ("B-NP", "B-VP", "B-NP", "B-NP", "I-NP")
    with pytest.raises(ValueError, match=r"a\.iob, line 3: there is no column 5, only 4 columns"):
        list(sentences(tmp_path / "a.iob", 5))


def test_only_spaces_and_tabs_separate_columns(tmp_path: Path) -> None:
    (tmp_path / "a.iob").write_text("\u00a0 O\nNew York\tB-LOC\n# O\nlast  O \n", "utf-8")
    assert list(sentences(tmp_path / "a.iob")) == [
        Sentence(("\u00a0", "New York", "#", "last"), ("O", "B-LOC", "O", "O"))
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("EU B-ORG\nrejects\n", "line 2: no tag after 'rejects'; give the word, a space or tab, and its tag"),
        ("EU NNP B-ORG\nrejects O\n", "line 2: 2 columns instead of 3; a blank line ends a sentence"),
        ("EU\tB-ORG\nrejects\t\tO\n", "line 2: 3 columns instead of 2"),
        ("EU\t\tB-ORG\n", "line 1: 'EU' has an empty tag"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text, message) -> None:
    (tmp_path / "a.iob").write_text(text)
    with pytest.raises(ValueError, match=rf"a\.iob, {message}"):
        list(sentences(tmp_path / "a.iob", 2 if "empty tag" in message else None))


def test_files_without_words_and_other_schemes_are_errors(tmp_path: Path) -> None:
    (tmp_path / "a.iob").write_text("-DOCSTART- O\n\n")
    with pytest.raises(ValueError, match=r"a\.iob: contains no words"):
        list(sentences(tmp_path / "a.iob"))
    (tmp_path / "a.iob").write_text("Peter B-PER\nBlackburn E-PER\nParis S-LOC\n")
    with pytest.raises(ValueError, match=r"tags of spans are O, B-... and I-...; this file also has E-PER, S-LOC"):
        list(sentences(tmp_path / "a.iob"))


def test_tags_of_spans_are_told_from_parts_of_speech() -> None:
    assert has_spans(["O", "B-PER"])
    assert has_spans(["B", "I", "O"])
    assert has_spans(["B-PER"])
    assert not has_spans(["O"])
    assert not has_spans(["NOUN", "O"])
    assert not has_spans(["B-PER", "NOUN"])


tags = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])


@given(st.lists(tags, max_size=8))
def test_in_iob2_every_span_begins_with_b_and_nothing_else_changes(given_tags) -> None:
    found = to_iob2(given_tags)
    assert to_iob2(found) == found
    for before, tag in zip(("O", *found), found, strict=False):
        assert tag[0] != "I" or before in (f"B{tag[1:]}", tag)
    assert [tag[1:] for tag in found] == [tag[1:] for tag in given_tags]
