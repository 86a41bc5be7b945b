import gzip
from pathlib import Path

import pytest

from regard.data.documents import documents

WIKI = """
 = Lobster =

 A lobster lives in the sea . It is red @-@ tipped .
 It has claws

 = = Name = =
 = = = Origin = = =
 Old English = no heading

 = 2 + 2 = 4 =
 Sums are = to sums .

 = Nothing =

 = = Empty = =
"""


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str, split) -> list[list[str]]:
        (tmp_path / "a.txt").write_text(text)
        return list(documents(tmp_path / "a.txt", split))

    return read


def test_a_file_is_one_document_whose_lines_are_joined_and_paragraphs_are_not(read) -> None:
    text = "CHAPTER I\n\n\nEmma was handsome,  \nclever, and\r\nrich. She\nwas Mr. Woodhouse's.\n \t\n= X =\n\nThe end"
    sentences = ["CHAPTER I", "Emma was handsome, clever, and rich.", "She was Mr. Woodhouse's.", "= X =", "The end"]
    assert read(text, "file") == [sentences]


def test_blank_lines_part_documents_whose_sentences_are_lines(read) -> None:
    text = "\nOne. And a half.\n Two \n\n \n= Three =\n\n\n"
    assert read(text, "blank") == [["One. And a half.", "Two"], ["= Three ="]]


def test_titles_part_documents_and_deeper_headings_end_paragraphs(read) -> None:
    assert read(WIKI, "heading") == [
        ["A lobster lives in the sea .", "It is red @-@ tipped .", "It has claws", "Old English = no heading"],
        ["Sums are = to sums ."],
    ]


def test_text_before_the_first_title_is_a_document(read) -> None:
    assert read("before\n = A = \nafter", "heading") == [["before"], ["after"]]


@pytest.mark.parametrize("line", ["= A = =", "= = A =", "= A", "A =", "=A=", "= =", "=", "== A =="])
def test_what_is_not_balanced_is_no_heading(read, line) -> None:
    assert read(f"before\n\n{line}\n\nafter", "heading") == [["before", line, "after"]]


@pytest.mark.parametrize("split", ["file", "blank", "heading"])
@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_empty_text_has_no_documents(read, split, text) -> None:
    assert read(text, split) == []


def test_packed_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n\ntwo"))
    assert list(documents(tmp_path / "a.txt.gz", "blank")) == [["one"], ["two"]]
