import gzip
from pathlib import Path

import pytest

from regard.data.text import lines, pairs


def test_plain_and_gzipped_lines_are_read(tmp_path: Path) -> None:
    text = "\ufeffone\r\n\nthré\u2028e\x0c\x85\nlast without an end"
    (tmp_path / "a").write_bytes(text.encode())
    (tmp_path / "a.gz").write_bytes(gzip.compress(text.encode()))
    expected = ["one", "", "thré\u2028e\x0c\x85", "last without an end"]
    assert list(lines(tmp_path / "a")) == list(lines(tmp_path / "a.gz")) == expected


def test_invalid_utf_8_is_reported_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\n\xe9t\xe9\n")
    with pytest.raises(ValueError, match=r"a\.txt, line 2: not UTF-8 \(bytes e9"):
        list(lines(tmp_path / "a.txt"))


@pytest.mark.parametrize("damage", [lambda data: data[:-12], lambda _: b"\x1f\x8b" + b"x" * 40, lambda _: b"no gzip"])
def test_a_damaged_gzip_file_is_reported(tmp_path: Path, damage) -> None:
    whole = gzip.compress("\n".join(map(str, range(10_000))).encode())
    (tmp_path / "a.gz").write_bytes(damage(whole))
    with pytest.raises(ValueError, match=r"a\.gz: damaged after line \d+"):
        list(lines(tmp_path / "a.gz"))


def test_one_tsv_file_and_two_text_files_give_the_same_pairs(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\tuno\tby Ana\ntwo\tdos\n")
    (tmp_path / "a.en").write_text("one\ntwo\n")
    (tmp_path / "a.es").write_text("uno\ndos")
    expected = [("one", "uno"), ("two", "dos")]
    assert list(pairs(tmp_path / "a.tsv")) == list(pairs(tmp_path / "a.en", tmp_path / "a.es")) == expected


def test_a_line_without_a_tab_is_reported(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("one\tuno\n\n")
    with pytest.raises(ValueError, match=r"a\.tsv, line 2: no tab between source and target in ''"):
        list(pairs(tmp_path / "a.tsv"))


@pytest.mark.parametrize(("one", "other"), [("a\nb\nc\n", "x\n"), ("a\n", "x\ny\nz\n")])
def test_files_of_different_length_are_reported_with_both_counts(tmp_path: Path, one, other) -> None:
    (tmp_path / "a.en").write_text(one)
    (tmp_path / "a.es").write_text(other)
    with pytest.raises(ValueError, match="parallel files need the same number of lines") as error:
        list(pairs(tmp_path / "a.en", tmp_path / "a.es"))
    message = str(error.value)
    assert f"a.en has {one.count(chr(10))}" in message
    assert f"a.es has {other.count(chr(10))}" in message
