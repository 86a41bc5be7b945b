import gzip
from pathlib import Path
from typing import Any

import pytest

from regard.config import parse
from regard.data.documents import DocumentsConfig, documents

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


def test_split_file_joins_lines_and_separates_paragraphs(read) -> None:
    text = "CHAPTER I\n\n\nEmma was handsome,  \nclever, and\r\nrich. She\nwas Mr. Woodhouse's.\n \t\n= X =\n\nThe end"
    sentences = ["CHAPTER I", "Emma was handsome, clever, and rich.", "She was Mr. Woodhouse's.", "= X =", "The end"]
    assert read(text, "file") == [sentences]


def test_split_blank_separates_documents_by_blank_lines(read) -> None:
    text = "\nOne. And a half.\n Two \n\n \n= Three =\n\n\n"
    assert read(text, "blank") == [["One. And a half.", "Two"], ["= Three ="]]


def test_split_heading_separates_documents_by_titles(read) -> None:
    assert read(WIKI, "heading") == [
        ["A lobster lives in the sea .", "It is red @-@ tipped .", "It has claws", "Old English = no heading"],
        ["Sums are = to sums ."],
    ]


def test_text_before_the_first_title_is_a_document(read) -> None:
    assert read("before\n = A = \nafter", "heading") == [["before"], ["after"]]


@pytest.mark.parametrize("line", ["= A = =", "= = A =", "= A", "A =", "=A=", "= =", "=", "== A =="])
def test_an_unbalanced_line_is_not_a_heading(read, line) -> None:
    assert read(f"before\n\n{line}\n\nafter", "heading") == [["before", line, "after"]]


@pytest.mark.parametrize("split", ["file", "blank", "heading"])
@pytest.mark.parametrize("text", ["", "\n \n\t\n"])
def test_empty_text_has_no_documents(read, split, text) -> None:
    assert read(text, split) == []


def test_gzipped_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n\ntwo"))
    assert list(documents(tmp_path / "a.txt.gz", "blank")) == [["one"], ["two"]]


def config(*names: object, **changes: Any) -> DocumentsConfig:
    return parse(DocumentsConfig, {"text": [str(name) for name in names], **changes})


def parts(config: DocumentsConfig) -> tuple[list[str], list[str]]:
    """All sentences for training, and all for validation."""
    one, other = ([s for document in config.documents(valid) for s in document] for valid in (False, True))
    return one, other


@pytest.mark.parametrize("lengths", [[500, 300], [12, 12], [3] * 40, [1, 2, 3, 100, 9, 8, 7], [9] * 300])
def test_every_sentence_is_for_training_or_validation(tmp_path: Path, lengths) -> None:
    text = "\n\n".join("\n".join(f"{i} {j}" for j in range(length)) for i, length in enumerate(lengths))
    (tmp_path / "a.txt").write_text(text)
    own = config(tmp_path / "a.txt", split="blank")
    train, valid = parts(own)
    assert sorted(train + valid) == sorted(filter(None, text.split("\n")))
    assert not set(train) & set(valid)
    assert 0 < len(valid) <= 4 + sum(lengths) / 50
    assert len(list(own.documents(valid=True))) > 1  # so that a random sentence can come from another document
    assert len(list(own.documents(valid=False))) > 1


def test_files_folders_and_patterns_are_found(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt.gz", "sub/d.md", "a.txt~", "a.txt.bak"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(gzip.compress(b"One. Two.") if name.endswith(".gz") else b"One. Two.")
    (tmp_path / "odd.txt").mkdir()
    names = [path.relative_to(tmp_path).as_posix() for path in config(tmp_path).paths()]
    assert names == ["a.txt", "b.txt", "sub/c.txt.gz"]
    assert config(tmp_path / "*.txt").paths() == [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert config(tmp_path / "sub/d.md", tmp_path / "a.txt").paths() == [tmp_path / "a.txt", tmp_path / "sub/d.md"]
    with pytest.raises(ValueError, match=r"nowhere: no such file, and no folder or pattern with text files"):
        config(tmp_path / "nowhere").paths()
