import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, f1_score, precision_recall_fscore_support

from regard.evaluation.tagging import TagScore, scores

tags = st.sampled_from(["NOUN", "VERB", "ADJ", "X"])
tagged = st.lists(st.lists(st.tuples(tags, tags), max_size=6), max_size=6).filter(any)


@given(tagged)
def test_scores_agree_with_scikit_learn(sentences) -> None:
    result = scores([[right for right, _ in s] for s in sentences], [[given for _, given in s] for s in sentences])
    gold, predicted = zip(*(pair for sentence in sentences for pair in sentence), strict=True)
    assert result["accuracy"] == pytest.approx(accuracy_score(gold, predicted))
    assert result["macro_f1"] == pytest.approx(f1_score(gold, predicted, average="macro", zero_division=0))
    assert list(result["tags"]) == sorted({*gold, *predicted})
    table = precision_recall_fscore_support(gold, predicted, labels=list(result["tags"]), zero_division=0)
    for score, precision, recall, f1, count in zip(result["tags"].values(), *table, strict=True):
        assert (score.precision, score.recall, score.f1) == pytest.approx((precision, recall, f1))
        assert score.count == count


def test_a_small_example_computed_by_hand() -> None:
    result = scores([["A", "B"], ["A", "A"]], [["A", "C"], ["B", "A"]])
    assert result["accuracy"] == 0.5
    assert result["tags"] == {
        "A": TagScore(precision=1, recall=pytest.approx(2 / 3), f1=pytest.approx(0.8), count=3),
        "B": TagScore(precision=0, recall=0, f1=0, count=1),
        "C": TagScore(precision=0, recall=0, f1=0, count=0),
    }
    assert result["macro_f1"] == pytest.approx(0.8 / 3)


def test_uneven_and_empty_lists_are_errors() -> None:
    with pytest.raises(ValueError, match="2 sentences and 1 predicted ones; the numbers must be equal"):
        scores([["A"], ["B"]], [["A"]])
    # equal in total, but not in each sentence
    with pytest.raises(ValueError, match="sentence 2 has 1 word and 2 predicted tags"):
        scores([["A"], ["A"], ["A", "A"]], [["A"], ["A", "A"], ["A"]])
    with pytest.raises(ValueError, match="nothing to score"):
        scores([[]], [[]])
