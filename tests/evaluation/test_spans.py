import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.spans import Span, scores, spans
from regard.evaluation.tagging import TagScore

tags = st.sampled_from(["O", "B-A", "I-A", "B-B", "I-B"])


def brute_force(sentence: list[str]) -> set[Span]:
    """Every stretch of words that could be a span, tested by the definition of a span."""
    found = set()
    for begin in range(len(sentence)):
        for end in range(begin + 1, len(sentence) + 1):
            inner, kind = sentence[begin:end], sentence[begin][2:]
            before, after = (["O", *sentence])[begin], ([*sentence, "O"])[end]
            begins = inner[0] == f"B-{kind}" or (inner[0] == f"I-{kind}" and before not in (f"B-{kind}", f"I-{kind}"))
            whole = all(tag == f"I-{kind}" for tag in inner[1:]) and after != f"I-{kind}"
            if kind and begins and whole:
                found.add(Span(kind, begin, end))
    return found


@given(st.lists(tags, max_size=7))
def test_spans_are_those_of_the_definition(sentence) -> None:
    found = list(spans(sentence))
    assert set(found) == brute_force(sentence)
    assert found == sorted(set(found), key=lambda span: span.begin)


@given(st.lists(st.lists(st.tuples(tags, tags), max_size=6), max_size=5).filter(any))
def test_scores_agree_with_counting_by_brute_force(sentences) -> None:
    gold, predicted = ([[pair[i] for pair in s] for s in sentences] for i in (0, 1))
    result = scores(gold, predicted)
    for kind in ("A", "B", None):
        one, other = (
            {(i, span) for i, s in enumerate(part) for span in brute_force(s) if kind in (None, span.type)}
            for part in (gold, predicted)
        )
        expected = [len(one & other) / max(1, len(part)) for part in (other, one)]
        expected.append(2 * len(one & other) / max(1, len(one) + len(other)))
        if kind is None:
            assert [result["precision"], result["recall"], result["f1"]] == pytest.approx(expected)
        elif one or other:
            found = result["types"][kind]
            assert [found.precision, found.recall, found.f1, found.count] == pytest.approx([*expected, len(one)])
        else:
            assert kind not in result["types"]


def test_a_small_example_computed_by_hand() -> None:
    gold = [["B-PER", "I-PER", "O", "B-LOC"], ["B-PER", "B-PER"]]
    # a span too short, a right one, two in place of one, and a word without a tag
    result = scores(gold, [["B-PER", "O", "O", "B-LOC"], ["B-PER", "?"]])
    assert result["precision"] == pytest.approx(2 / 3)
    assert result["recall"] == pytest.approx(2 / 4)
    assert result["f1"] == pytest.approx(2 * 2 / (3 + 4))
    assert result["accuracy"] == pytest.approx(4 / 6)
    assert result["types"] == {"LOC": TagScore(1, 1, 1, 1), "PER": TagScore(1 / 2, 1 / 3, pytest.approx(2 / 5), 3)}


def test_one_long_span_is_not_two_short_ones() -> None:
    assert list(spans(["B-A", "I-A"])) == [Span("A", 0, 2)]
    assert list(spans(["B-A", "B-A"])) == [Span("A", 0, 1), Span("A", 1, 2)]
    assert list(spans(["B", "I", "O", "I"])) == [Span("", 0, 2), Span("", 3, 4)]


def test_sentences_without_spans_score_zero_and_uneven_ones_are_errors() -> None:
    assert scores([["O"]], [["O"]])["f1"] == 0
    with pytest.raises(ValueError, match="sentence 1 has 2 words and 1 predicted tag"):
        scores([["O", "O"]], [["O"]])
    with pytest.raises(ValueError, match="there is nothing to score"):
        scores([[]], [[]])
