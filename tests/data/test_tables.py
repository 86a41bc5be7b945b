import gzip
import json
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
    with pytest.raises(ValueError, match=rf"{name}, line {line}: \d columns? instead of 2 \('text', 'label'\)"):
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


@pytest.mark.parametrize("name", ["a.jsonl", "A.JSONL", "a.jsonl.gz"])
def test_json_lines_are_read_by_their_keys(tmp_path: Path, name) -> None:
    rows = [
        {"label": "good", "text": 'fine\n"film"', "other": [1]},
        {"text": "", "label": 7},
        {"text": "x", "label": True},
    ]
    path = written(tmp_path / name, "\n".join(map(json.dumps, rows)) + "\n\n")
    expected = [("good", 'fine\n"film"'), ("7", ""), ("true", "x")]
    assert list(read_table(path, ["text"], "label")) == [Example(text, None, label) for label, text in expected]
    assert list(read_table(path, ["text"], None)) == [Example(text, None, None) for _, text in expected]


def test_json_lines_hold_pairs_and_numbers(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"a": "one", "b": "two", "score": 2.5}\n{"a": "x", "b": "", "score": "3"}\n')
    assert list(read_table(path, ["a", "b"], "score", numbers=True)) == [
        Example("one", "two", "2.5"),
        Example("x", "", "3"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "one"}', "no value for 'label'; the keys of this line are 'text'"),
        ('{"text": "one", "label": null}', "no value for 'label'; the keys of this line are 'text', 'label'"),
        ('{"label": 1}', "no value for 'text'; the keys of this line are 'label'"),
        ('{"text": 3, "label": 1}', "'text' is a number, not a text; put it in quotes"),
        ('{"text": ["one"], "label": 1}', "'text' is a list, not a text"),
        ('{"text": "one", "label": {"a": 1}}', "the label 'label' is an object, not a text or a number"),
        ('{"text": "one", "label": ""}', "the label 'label' is empty"),
        ('{"text": "\\ud800", "label": 1}', "'text' has half of a surrogate pair"),
        ('{"text": "one", "label": 1', "not JSON .*; write one JSON object per line"),
        ("[" * 10_000, "not JSON .*; write one JSON object per line"),
        ('["one", 1]', "not a JSON object but a list; write one JSON object per line"),
        ("null", "not a JSON object but null"),
    ],
)
def test_a_wrong_line_of_json_is_named_with_file_and_line(tmp_path: Path, line, message) -> None:
    path = written(tmp_path / "a.jsonl", f'{{"text": "fine", "label": 1}}\n\n{line}\n')
    with pytest.raises(ValueError, match=rf"a\.jsonl, line 3: {message}"):
        list(read_table(path, ["text"], "label"))


def test_labels_of_json_lines_are_checked_like_those_of_tables(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", '{"text": "fine", "label": "good"}\n{"text": "odd", "label": 2}\n')
    with pytest.raises(ValueError, match=r"a\.jsonl: unknown labels '2' \(line 2\); valid labels are 'good'"):
        list(read_table(path, ["text"], "label", known=["good"]))
    with pytest.raises(ValueError, match=r"a\.jsonl, line 1: 'good' is not a number"):
        list(read_table(path, ["text"], "label", numbers=True))
    with pytest.raises(ValueError, match='each of its lines must be a JSON object such as {"text": "...", "label": '):
        list(read_table(written(tmp_path / "b.jsonl", "\n"), ["text"], "label"))


def test_a_field_of_csv_may_be_long(tmp_path: Path) -> None:
    long = "a, " * 100_000
    path = written(tmp_path / "a.csv", f'text,label\n"{long}",good\n')
    assert [example.text for example in read_table(path, ["text"], "label")] == [long]


def test_three_text_columns_are_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", "a\tb\tc\n1\t2\t3\n")
    with pytest.raises(ValueError, match="3 text columns"):
        list(read_table(path, ["a", "b", "c"], None))
