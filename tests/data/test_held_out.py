import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.conllu import Sentence
from regard.data.held_out import split
from regard.data.labelled import TableConfig
from regard.data.tables import Example
from regard.data.tagged import ConlluConfig, IobConfig
from regard.errors import RegardError

EXAMPLES = [Example(f"text {i}", None, "even" if i % 2 == 0 else "odd") for i in range(3000)]


def test_a_tenth_is_held_out_up_to_a_limit() -> None:
    for count, limit, expected in ((3000, 1000, 300), (3000, 100, 100), (19, 1000, 1), (2, 1000, 1), (0, 1000, 0)):
        train, valid = split(EXAMPLES[:count], limit, "a.tsv")
        assert len(valid) == expected
        assert sorted([*train, *valid]) == sorted(EXAMPLES[:count])


def test_the_same_examples_are_held_out_in_any_order() -> None:
    _, valid = split(EXAMPLES, 1000, "a.tsv")
    shuffled = random.Random(1).sample(EXAMPLES, len(EXAMPLES))
    assert set(split(shuffled, 1000, "a.tsv")[1]) == set(valid)
    # a file whose labels alternate must not have one label only in every tenth line
    assert 120 < sum(example.label == "odd" for example in valid) < 180


@given(st.lists(st.tuples(st.text("ab", max_size=2), st.sampled_from(["", None]), st.text("xy")), max_size=40))
def test_no_text_is_in_both_parts(rows) -> None:
    examples = [Example(*row) for row in rows] + EXAMPLES[:6]
    train, valid = split(examples, 1000, "a.tsv")
    assert train
    assert len(valid) == max(1, len(examples) // 10)
    assert not {example[:2] for example in train} & {example[:2] for example in valid}
    assert set(train) | {e for e in examples if e[:2] in {v[:2] for v in valid}} == set(examples)


def test_one_text_alone_cannot_be_split() -> None:
    with pytest.raises(RegardError, match=r"a\.tsv: none of its examples are left for training"):
        split(EXAMPLES[:1] * 20, 1000, "a.tsv")


def test_equal_words_with_other_tags_are_excluded_from_training() -> None:
    sentences = [Sentence(("dog",), ("A",)), Sentence(("dog",), ("B",)), Sentence(("cat",), ("A",))]
    train, (valid,) = split(sentences, 1, "a.iob")
    assert all(sentence.words != valid.words for sentence in train)


def test_a_table_without_a_validation_file_is_split_and_the_log_says_so(tmp_path: Path) -> None:
    rows = [f"{example.text}\t{example.label}" for example in EXAMPLES[:200]]
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows, *rows[:20]]) + "\n")
    said: list[str] = []
    config = TableConfig(train=str(tmp_path / "a.tsv"))
    train, valid = config.parts(said.append)
    left = 220 - len(train) - len(valid)
    assert len(valid) == 22
    also = f", and {left} with the same text excluded from training" if left else ""
    assert said == [f"validation: 22 examples split from training{also}; give others with data.valid"]
    given_file = TableConfig(train=str(tmp_path / "a.tsv"), valid=str(tmp_path / "a.tsv"))
    assert [len(part) for part in given_file.parts(said.append)] == [220, 220]
    assert len(said) == 1
    assert given_file.keys() != config.keys() != TableConfig(train=str(tmp_path / "a.tsv"), hold_out=5).keys()


def test_tagged_sentences_without_a_validation_file_are_split(tmp_path: Path) -> None:
    words = [f"word{i}" for i in range(30)]
    (tmp_path / "a.iob").write_text("".join(f"{word} X O\n\n" for word in words))
    (tmp_path / "a.conllu").write_text("".join(f"1\t{word}\t_\tX\tY" + "\t_" * 5 + "\n\n" for word in words))
    parts = [
        config(train=str(tmp_path / name)).parts(str)
        for config, name in ((IobConfig, "a.iob"), (ConlluConfig, "a.conllu"))
    ]
    for train, valid in parts:
        assert (len(train), len(valid)) == (27, 3)
    # by the words alone, whatever their tags
    assert [s.words for s in parts[0][1]] == [s.words for s in parts[1][1]]
