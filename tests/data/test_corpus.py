from pathlib import Path

import pytest

from regard.codecs.subword import SubwordTokenizer
from regard.data import corpus as module
from regard.data.corpus import CorpusCounts, encoded, file_hash

PAIRS = [(f"the {i}", f"el {i}") for i in range(30)]
TOKENIZER = SubwordTokenizer.train("bpe", 270, [text for pair in PAIRS for text in pair])


def make(folder: Path, pairs=PAIRS, key="key", max_length=100):
    return encoded(lambda: iter(pairs), key, TOKENIZER, TOKENIZER, max_length, folder)


def test_every_sentence_can_be_decoded(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 7)
    corpus = make(tmp_path)
    assert len(corpus) == 30
    for i, pair in enumerate(PAIRS):
        for side, text in zip(("source", "target"), pair, strict=True):
            assert TOKENIZER.decode([corpus.sentence(side, i).tolist()]) == [text]
            assert corpus.lengths(side)[i] == len(corpus.sentence(side, i))


def test_empty_and_long_pairs_are_dropped_and_counted(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(module, "CHUNK", 2)
    pairs = [("", "x"), ("x", " \t"), ("y " * 50, "x"), ("x", "y " * 50), ("one", "uno")]
    corpus = make(tmp_path, pairs, max_length=20)
    assert corpus.about == CorpusCounts(kept=1, empty=2, long=2)
    assert TOKENIZER.decode([corpus.sentence("target", 0).tolist()]) == ["uno"]


def test_a_corpus_without_valid_pairs_is_empty(tmp_path: Path) -> None:
    assert len(make(tmp_path, [("", "")])) == 0


def test_an_encoded_corpus_is_cached_by_key_tokenizer_and_maximum_length(tmp_path: Path) -> None:
    reads = []

    def read():
        reads.append(1)
        return iter(PAIRS)

    other = SubwordTokenizer.train("bpe", 265, ["other"])
    for key, source, max_length in (
        ("a", TOKENIZER, 9),
        ("a", TOKENIZER, 9),
        ("b", TOKENIZER, 9),
        ("b", other, 9),
        ("b", other, 8),
    ):
        encoded(read, key, source, TOKENIZER, max_length, tmp_path)
    assert len(reads) == 4
    assert len(list(tmp_path.iterdir())) == 4


def test_an_error_while_encoding_leaves_no_files(tmp_path: Path) -> None:
    def read():
        yield from PAIRS
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        encoded(read, "key", TOKENIZER, TOKENIZER, 100, tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert len(make(tmp_path)) == 30


def test_a_file_hash_depends_on_the_contents_only(tmp_path: Path) -> None:
    for name, text in (("a", "x"), ("b", "x"), ("c", "y")):
        (tmp_path / name).write_text(text)
    assert file_hash(tmp_path / "a") == file_hash(tmp_path / "b") != file_hash(tmp_path / "c")


@pytest.mark.parametrize("name", ["source.bin", "target.npy", "about.json"])
def test_damaged_cache_files_are_encoded_again(tmp_path: Path, name) -> None:
    make(tmp_path)
    (folder,) = tmp_path.iterdir()
    (folder / name).write_bytes(b"")
    with pytest.warns(UserWarning, match=f"the cache is damaged and is created again: .*{name}: damaged"):
        corpus = make(tmp_path)
    assert TOKENIZER.decode([corpus.sentence("target", 29).tolist()]) == ["el 29"]
