import gzip
from pathlib import Path

import pytest

from regard.data.conllu import Sentence, sentences


def row(number: str, word: str = "a", upos: str = "NOUN", xpos: str = "NN") -> str:
    return "\t".join([number, word, "_", upos, xpos, *["_"] * 5])


TEXT = "\n".join(
    [
        "# sent_id = 1",
        "# text = I don't.",
        row("1", "I", "PRON", "PRP"),
        row("2-3", "don't", "_", "_"),
        row("2", "do", "AUX", "VBP"),
        row("3", "n't", "PART", "RB"),
        row("3.1", "go", "_", "_"),
        row("4", ".", "PUNCT", "."),
        "",
        "",
        "# only a comment",
        "",
        row("0.1", "it", "_", "_"),
        row("1", "20 000", "NUM", "CD"),
        row("2", "_", "SYM", "SYM"),
    ]
)
EXPECTED = [
    Sentence(("I", "do", "n't", "."), ("PRON", "AUX", "PART", "PUNCT")),
    Sentence(("20 000", "_"), ("NUM", "SYM")),
]


@pytest.mark.parametrize("text", [TEXT, TEXT + "\n", TEXT + "\n\n\n", TEXT.replace("\n", "\r\n"), "\ufeff" + TEXT])
def test_comments_ranges_and_empty_nodes_are_skipped_with_any_line_ends(tmp_path: Path, text) -> None:
    (tmp_path / "a.conllu").write_bytes(text.encode())
    (tmp_path / "a.conllu.gz").write_bytes(gzip.compress(text.encode()))
    assert list(sentences(tmp_path / "a.conllu")) == list(sentences(tmp_path / "a.conllu.gz")) == EXPECTED


def test_xpos_tags_are_read_from_their_column(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(TEXT)
    assert [sentence.tags for sentence in sentences(tmp_path / "a.conllu", "xpos")] == [
        ("PRP", "VBP", "RB", "."),
        ("CD", "SYM"),
    ]


def test_a_file_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text("# nothing\n\n")
    with pytest.raises(ValueError, match=r"a\.conllu: contains no words; CoNLL-U has one word per line"):
        list(sentences(tmp_path / "a.conllu"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (row("2") + "\t_", "line 3: 11 columns in '2.*CoNLL-U has 10, separated by tabs"),
        ("2 a _ NOUN NN _ _ _ _ _", "line 3: 1 column in"),
        ("2-3\ta", "line 3: 2 columns"),
        (" ", "line 3: 1 column in"),
        (row("2", upos="_"), "line 3: 'a' has no upos; give a file with tags, or choose column 'xpos'"),
        (row("2", upos=""), "line 3: 'a' has no upos"),
        (row("2", word=""), "line 3: word 2 is empty"),
        (row("3"), "line 3: word number is '3', expected 2"),
        (row("1"), "line 3: word number is '1', expected 2.*a blank line ends a sentence"),
        (row("3-4"), "line 3: word number is '3-4'"),
        (row("2.1"), "line 3: word number is '2.1'"),
        (row("two"), "line 3: word number is 'two'"),
    ],
)
def test_invalid_lines_are_reported_with_file_and_line(tmp_path: Path, line, message) -> None:
    (tmp_path / "a.conllu").write_text(f"# one\n{row('1')}\n{line}\n\n")
    with pytest.raises(ValueError, match=rf"a\.conllu, {message}"):
        list(sentences(tmp_path / "a.conllu"))


def test_a_missing_xpos_tag_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.conllu").write_text(row("1", xpos="_"))
    assert len(list(sentences(tmp_path / "a.conllu"))) == 1
    with pytest.raises(ValueError, match="line 1: 'a' has no xpos; give a file with tags, or choose column 'upos'"):
        list(sentences(tmp_path / "a.conllu", "xpos"))
