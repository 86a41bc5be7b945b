import gzip
from pathlib import Path

import pytest

from regard.data.tables import Example, read_table


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.tsv", "a.tsv.gz", "a.txt"])
def test_columns_are_found_by_name_in_any_order(tmp_path: Path, name) -> None:
    path = written(tmp_path / name, "\ufeffid\tlabel\ttext\r\n7\tgood\tfine film\r\n8\tbad\t\r\n")
    assert list(read_table(path, ["text"], "label")) == [
        Example("fine film", None, "good"),
        Example("", None, "bad"),
    ]
    assert list(read_table(path, ["id", "text"], None)) == [
        Example("7", "fine film", None),
        Example("8", "", None),
    ]


def test_quotes_in_a_tsv_are_text(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", 'text\tlabel\n"never closed, he said\t1\n"both"\t0\n')
    assert [example.text for example in read_table(path, ["text"], "label")] == ['"never closed, he said', '"both"']


@pytest.mark.parametrize("name", ["a.csv", "A.CSV", "a.csv.gz"])
def test_quoted_csv_fields_may_contain_commas_quotes_and_line_breaks(tmp_path: Path, name) -> None:
    path = written(tmp_path / name, 'text,label\r\n"one, ""two""\r\nthree",1\r\nplain,0\r\n')
    assert list(read_table(path, ["text"], "label")) == [
        Example('one, "two"\nthree', None, "1"),
        Example("plain", None, "0"),
    ]


def test_an_empty_line_in_a_table_of_one_column_is_an_empty_text(tmp_path: Path) -> None:
    for name in ("a.tsv", "a.csv"):
        path = written(tmp_path / name, "text\none\n\ntwo\n")
        assert [example.text for example in read_table(path, ["text"], None)] == ["one", "", "two"]


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.tsv", "text\tlabel\none\t1\ntwo\n", 3),
        ("a.tsv", "text\tlabel\none\t1\textra\n", 2),
        # the line number counts lines of the file, not rows
        ("a.csv", 'text,label\n"one\nand\nmore",1\ntwo\n', 5),
    ],
)
def test_a_wrong_number_of_columns_is_reported_with_file_and_line(tmp_path: Path, name, text, line) -> None:
    path = written(tmp_path / name, text)
    with pytest.raises(ValueError, match=rf"{name}, line {line}: \d columns instead of 2 \('text', 'label'\)"):
        list(read_table(path, ["text"], "label"))


@pytest.mark.parametrize("text", ['text,label\none,1\n"two\nthree,1\n', 'text,label\none,1\n"two" or so,1\n'])
def test_unclosed_quotes_in_a_csv_are_reported_with_their_line(tmp_path: Path, text) -> None:
    path = written(tmp_path / "a.csv", text)
    with pytest.raises(ValueError, match=r"a\.csv, line 3: not CSV .* save the table as TSV"):
        list(read_table(path, ["text"], "label"))


def test_a_missing_column_is_reported_with_the_existing_ones(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "review\tstars\nfine\t5\n")
    with pytest.raises(ValueError, match=r"a\.tsv has no column 'text'; its columns are 'review', 'stars'"):
        list(read_table(path, ["text"], "stars"))
    with pytest.raises(ValueError, match=r"no column 'label'"):
        list(read_table(path, ["review"], "label"))


def test_a_missing_label_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "text\tlabel\none\t1\ntwo\t\n")
    with pytest.raises(ValueError, match=r"a\.tsv, line 3: the column 'label' is empty"):
        list(read_table(path, ["text"], "label"))


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_an_empty_file_is_reported(tmp_path: Path, name) -> None:
    with pytest.raises(ValueError, match="is empty; its first line must name the columns"):
        list(read_table(written(tmp_path / name, ""), ["text"], None))


def test_three_text_columns_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a\tb\tc\n1\t2\t3\n")
    with pytest.raises(ValueError, match="3 text columns"):
        list(read_table(path, ["a", "b", "c"], None))
