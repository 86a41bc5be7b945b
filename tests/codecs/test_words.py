import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.codecs.words import Words, features, shape
from regard.models.rnn_tagger import PAD_FEATURE, UNKNOWN

SENTENCES = [["The", "cat", "sleeps"], ["the", "dog", "barks"], ["A", "cat", "eats", "12", "mice"], ["Mice", "eats"]]
WORDS = Words.learn(SENTENCES)


def test_frequent_words_are_in_the_vocabulary_in_lower_case() -> None:
    assert WORDS.words == ("cat", "eats", "mice", "the")
    assert Words.learn(SENTENCES, min_count=3).words == ()
    assert len(Words.learn(SENTENCES, min_count=1).words) == 9


def test_the_features_of_a_word_are_word_ending_and_shape() -> None:
    (rows,) = WORDS.encode([["The", "cat", "chats", "THE"]])
    assert rows.dtype == np.int64
    the = [2 + WORDS.words.index("the"), 2 + WORDS.endings.index("the")]
    assert rows.tolist() == [
        [*the, 2 + WORDS.shapes.index("First")],
        [2, 2 + WORDS.endings.index("cat"), 2 + WORDS.shapes.index("small")],
        [UNKNOWN, 2 + WORDS.endings.index("ats"), 2 + WORDS.shapes.index("small")],
        [*the, UNKNOWN],  # no word of the training data was in capitals
    ]


@given(st.lists(st.lists(st.text(max_size=5), max_size=5), max_size=4))
def test_feature_ids_are_within_the_vocabularies_and_never_padding(sentences) -> None:
    encoded = WORDS.encode(sentences)
    assert [rows.shape for rows in encoded] == [(len(sentence), 3) for sentence in sentences]
    for rows in encoded:
        assert (rows > PAD_FEATURE).all()
        assert (rows < WORDS.sizes()["sizes"]).all()


@given(st.lists(st.lists(st.text(max_size=3), max_size=5), max_size=4))
def test_every_feature_id_is_used(sentences) -> None:
    learned = Words.learn(sentences, min_count=1)
    (rows,) = learned.encode([[word for sentence in sentences for word in sentence]])
    assert all(
        set(column) == set(range(2, size)) for column, size in zip(rows.T, learned.sizes()["sizes"], strict=True)
    )


def test_the_vocabulary_does_not_depend_on_the_order_of_sentences() -> None:
    assert Words.learn(SENTENCES[::-1]) == WORDS


def test_composed_and_decomposed_letters_have_the_same_features() -> None:
    assert features("Ete\u0301s") == features("Et\u00e9s") == ("et\u00e9s", "t\u00e9s", "First")


@pytest.mark.parametrize(
    ("expected", "words"),
    [
        ("small", ["cat", "don't", "é"]),
        ("First", ["Cat", "I", "Don't", "Élan"]),
        ("ALL", ["USA", "U.S."]),
        ("digit", ["12", "3rd", "B-52"]),
        ("hyphen", ["well-known", "Jean-Paul"]),
        ("sign", ["-", "--", "...", "$", ""]),
        ("other", ["McDonald", "iPhone", "漢字"]),
    ],
)
def test_each_word_has_the_expected_shape(expected, words) -> None:
    assert [shape(word) for word in words] == [expected] * len(words)


def test_a_saved_vocabulary_loads_unchanged(tmp_path: Path) -> None:
    words = Words.learn([["niño", "😀", '"', "\u2028"]], min_count=1)
    words.save(tmp_path / "words.json")
    assert Words.load(tmp_path / "words.json") == words
    assert json.loads((tmp_path / "words.json").read_text("utf-8"))["kind"] == "words"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WORDS.to_json()[:-20], r"not the vocabulary of a tagger \("),
        ("\udcff", r"not the vocabulary of a tagger \("),
        ("[" * 100_000, r"not the vocabulary of a tagger \("),
        ("[]", "expected a table"),
        ("{}", "words: is required and missing"),
        (WORDS.to_json().replace('"words"', '"bpe"', 1), 'kind = "bpe": expected one of'),
        (WORDS.to_json().replace('"cat"', "3", 1), "words.0 = 3: expected text in quotes"),
        (WORDS.to_json().replace('"cat"', '"the"', 1), "words: 'the' occurs 2 times"),
    ],
)
def test_a_damaged_file_is_reported(tmp_path: Path, text, message) -> None:
    (tmp_path / "words.json").write_text(text, "utf-8", errors="surrogateescape")
    with pytest.raises(ValueError, match=rf"(?s)words\.json: .*{message}"):
        Words.load(tmp_path / "words.json")
