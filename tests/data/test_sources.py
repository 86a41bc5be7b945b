import os
import sys
from itertools import islice
from pathlib import Path

import pytest

from regard.config import ConfigError, parse
from regard.data.completion import TextConfig
from regard.data.dates import dates
from regard.data.sources import DatesConfig, ParallelConfig


def write(folder: Path, count: int) -> str:
    (folder / "a.tsv").write_text("".join(f"The {i}th.\tEl {i}.\n" for i in range(count)))
    return str(folder / "a.tsv")


def test_training_data_may_be_a_path_a_table_or_a_list() -> None:
    assert [files.path for files in parse(ParallelConfig, {"train": "a.tsv"}).train] == ["a.tsv"]
    config = parse(ParallelConfig, {"train": ["a.tsv", {"path": "b.en", "target": "b.de", "weight": 0.5}]})
    assert [(f.path, f.target, f.weight) for f in config.train] == [("a.tsv", None, 1), ("b.en", "b.de", 0.5)]


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (3, "train = 3: Value error, give a path, a table with path and target, or a list of these"),
        ([{"pth": "a"}], r"train\.0\.pth = \"a\": no such key; did you mean path\?"),
        (["a.tsv", {"path": "b", "weight": 0}], r"train\.1\.weight = 0: must be more than 0"),
    ],
)
def test_invalid_sources_are_reported(train, message) -> None:
    with pytest.raises(ConfigError, match=message):
        parse(ParallelConfig, {"train": train})


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    config = parse(ParallelConfig, {"train": str(tmp_path / "nowhere.tsv")})
    with pytest.raises(ValueError, match=r"nowhere\.tsv: no such file"):
        config.parts()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (Path.mkdir, "data: is a folder; give a file"),
        (os.mkfifo, "data: is not a regular file, and a pipe can be read only once"),
        (Path.touch, "data: contains no sentence pairs; give a file with at least one"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
def test_a_folder_a_pipe_and_an_empty_file_are_reported(make, message, tmp_path: Path) -> None:
    make(tmp_path / "data")
    config = parse(ParallelConfig, {"train": str(tmp_path / "data")})
    with pytest.raises(ValueError, match=message):
        config.parts()


def test_a_tilde_in_a_path_is_the_home_folder(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))  # of Windows
    config = parse(ParallelConfig, {"train": ["~/a.tsv", {"path": "~/b", "target": "~/c"}]})
    assert [Path(files.path).parent for files in config.train] == [tmp_path, tmp_path]
    assert config.train[1].target == str(tmp_path / "c")
    assert parse(TextConfig, {"text": "~/*.txt"}).text == (str(tmp_path / "*.txt"),)


def test_without_validation_data_some_training_pairs_are_held_out(tmp_path: Path) -> None:
    config = parse(ParallelConfig, {"train": write(tmp_path, 200), "hold_out": 50})
    (part,), (valid,) = config.parts(), config.valid_parts()
    train, held_out = set(part.read()), set(valid.read())
    assert len(held_out) == 10  # a twentieth, which is less than 50
    assert len(train) == 190
    assert not train & held_out
    (tmp_path / "valid.tsv").write_text("one\tuno\n")
    config = parse(ParallelConfig, {"train": write(tmp_path, 200), "valid": str(tmp_path / "valid.tsv")})
    assert len(list(config.parts()[0].read())) == 200
    assert list(config.valid_parts()[0].read()) == [("one", "uno")]


def test_augmentation_adds_pairs_in_lower_case_without_full_stop(tmp_path: Path) -> None:
    (tmp_path / "valid.tsv").write_text("one\tuno\n")
    data = {"train": write(tmp_path, 400), "valid": str(tmp_path / "valid.tsv"), "augment": 0.25}
    read = list(parse(ParallelConfig, data).parts()[0].read())
    # a quarter of 400, ± five standard errors
    assert 57 < len(read) - 400 < 143
    extra = [pair for pair in read if pair[0].startswith("the")]
    assert len(extra) == len(read) - 400
    source, target = extra[0]
    assert (f"The{source[3:]}.", target) in read


def test_the_cache_key_of_a_corpus_depends_on_its_data_and_settings(tmp_path: Path) -> None:
    (tmp_path / "valid.tsv").write_text("one\tuno\n")
    valid = str(tmp_path / "valid.tsv")

    def key(count: int, **changes) -> str:
        return parse(ParallelConfig, {"train": write(tmp_path, count), **changes}).parts()[0].key

    keys = [key(50), key(51), key(50, valid=valid), key(50, valid=valid, augment=0.5), key(50, hold_out=2)]
    assert len(set(keys)) == 5
    assert key(50) == keys[0]


def test_pairs_held_out_of_the_first_file_change_the_cache_key_of_the_second(tmp_path: Path) -> None:
    for name in ("a", "c"):
        (tmp_path / f"{name}.tsv").write_text("".join(f"{name} {i}\tx\n" for i in range(50)))
    (tmp_path / "b.tsv").write_text("a 10\tx\nc 10\tx\n")

    def second(first: str):
        return parse(ParallelConfig, {"train": [str(tmp_path / f"{name}.tsv") for name in (first, "b")]}).parts()[1]

    assert second("a").key != second("c").key
    assert list(second("a").read()) == [("c 10", "x")]


@pytest.mark.parametrize("count", [1, 2, 10, 11])
def test_of_few_pairs_exactly_one_is_held_out(tmp_path: Path, count) -> None:
    config = parse(ParallelConfig, {"train": write(tmp_path, count)})
    assert len(list(config.valid_parts()[0].read())) == 1


def test_augmentation_removes_only_sentence_final_punctuation(tmp_path: Path) -> None:
    (tmp_path / "mine.tsv").write_text("I like C++.\tx\nIt rose 5%!\tx\n")
    data = {"train": str(tmp_path / "mine.tsv"), "valid": str(tmp_path / "mine.tsv"), "augment": 0.999}
    read = [source for source, _ in parse(ParallelConfig, data).parts()[0].read()]
    assert read == ["I like C++.", "i like c++", "It rose 5%!", "it rose 5%"]


def test_dates_are_reproducible_and_hold_out_years_for_validation() -> None:
    seen = list(islice(dates("en", "es", 1), 2000))
    assert seen == list(islice(dates("en", "es", 1), 2000))
    assert seen != list(islice(dates("en", "es", 2), 2000))
    years = {source[-4:] for source, _ in seen if source[-4:].isdigit()}
    assert not [year for year in years if year.endswith("7")]
    unseen = list(islice(dates("en", "es", 1, unseen=True), 500))
    assert all(source[-1] == target[-1] == "7" for source, target in unseen)
    for source, target in seen:
        if source.startswith("Monday, August "):
            day, year = source.removeprefix("Monday, August ").split(", ")
            assert target == f"lunes, {day} de agosto de {year}"
            break
    else:
        pytest.fail("no Monday in August")


def test_every_source_has_one_translation() -> None:
    found: dict[str, str] = {}
    for source, target in islice(dates("en", "es", 1), 20_000):
        assert found.setdefault(source, target) == target


@pytest.mark.parametrize("language", ["de", "zh", "pt-BR", "ar", "fi"])
def test_dates_exist_in_any_language_of_babel(language) -> None:
    assert all(target for _, target in islice(dates("en", language, 1), 200))


def test_an_unknown_language_is_reported() -> None:
    with pytest.raises(ValueError, match="unknown language 'klingon'"):
        next(dates("en", "klingon", 1))


def test_dates_have_the_number_of_pairs_of_the_config() -> None:
    config = DatesConfig(pairs=50)
    assert len(list(config.parts()[0].read())) == 50
    assert len(list(config.valid_parts()[0].read())) == 1000
    assert config.parts()[0].key != DatesConfig(pairs=50, target="de").parts()[0].key
