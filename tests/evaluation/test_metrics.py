import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from regard.evaluation.metrics import accuracy, f1, matthews, pearson, spearman

ROUNDING = 1e-12  # both sides sum a few dozen float64 numbers


def pairs_of(values, size: int = 1):
    """Lists of (predicted, gold)."""
    return st.lists(st.tuples(values, values), min_size=size, max_size=40).map(
        lambda pairs: tuple(zip(*pairs, strict=True))
    )


@given(pairs_of(st.sampled_from(["a", "b", "c"])))
def test_accuracy_agrees_with_scikit_learn(labels) -> None:
    predicted, gold = labels
    assert accuracy(predicted, gold) == pytest.approx(accuracy_score(gold, predicted), abs=ROUNDING)


@given(pairs_of(st.sampled_from(["a", "b", "c"])))
def test_f1_agrees_with_scikit_learn(labels) -> None:
    predicted, gold = labels
    expected = f1_score(gold, predicted, labels=["b"], average=None, zero_division=0)[0]
    assert f1(predicted, gold, "b") == pytest.approx(expected, abs=ROUNDING)


@given(st.sampled_from([("a", "b"), ("a", "b", "c")]).flatmap(lambda names: pairs_of(st.sampled_from(names))))
def test_matthews_agrees_with_scikit_learn(labels) -> None:
    predicted, gold = labels
    # scikit-learn warns and returns 0 if there is only one label
    expected = matthews_corrcoef(gold, predicted) if len({*predicted, *gold}) > 1 else 0.0
    assert matthews(predicted, gold) == pytest.approx(expected, abs=ROUNDING)


# few distinct values, so that there are ties
NUMBERS = st.integers(-20, 20).map(lambda value: value / 4)


@given(pairs_of(NUMBERS, size=2))
def test_pearson_and_spearman_agree_with_scipy(numbers) -> None:
    predicted, gold = numbers
    if len(set(predicted)) == 1 or len(set(gold)) == 1:
        assert pearson(predicted, gold) == spearman(predicted, gold) == 0
        return
    assert pearson(predicted, gold) == pytest.approx(stats.pearsonr(predicted, gold).statistic, abs=ROUNDING)
    assert spearman(predicted, gold) == pytest.approx(stats.spearmanr(predicted, gold).statistic, abs=ROUNDING)


@given(pairs_of(NUMBERS, size=2), st.sampled_from([1e-300, 1e-9, 1e9, 1e300]))
def test_a_correlation_does_not_depend_on_the_unit(numbers, unit) -> None:
    predicted, gold = numbers
    assert pearson([value * unit for value in predicted], gold) == pytest.approx(pearson(predicted, gold), abs=1e-9)


def test_metrics_are_one_only_for_correct_predictions() -> None:
    gold, wrong = ["yes", "no", "yes"], ["no", "yes", "no"]
    assert accuracy(gold, gold) == f1(gold, gold, "yes") == matthews(gold, gold) == pytest.approx(1)
    assert accuracy(wrong, gold) == f1(wrong, gold, "yes") == 0
    assert matthews(wrong, gold) == pytest.approx(-1)
    assert pearson([3, 2, 1], [1, 2, 3]) == spearman([9, 2, 1], [1, 2, 3]) == pytest.approx(-1)


def test_constant_predictions_score_zero() -> None:
    assert matthews(["yes"] * 3, ["yes", "no", "yes"]) == matthews(["yes"] * 3, ["yes"] * 3) == 0
    assert f1(["no"] * 2, ["no"] * 2, "yes") == 0
    # the floating-point mean of these is not exactly 0.1
    assert pearson([0.1] * 3, [1, 2, 3]) == pearson([1, 2, 3], [0.1] * 3) == pearson([1], [2]) == 0
    assert spearman([0.1] * 3, [1, 2, 3]) == 0


def test_a_large_test_set_does_not_overflow() -> None:
    # as many as QQP's; the product under the root has 22 digits
    gold = ["yes", "no"] * 200_000
    assert matthews(gold, gold) == pytest.approx(1)


def test_numpy_arrays_are_sequences_too() -> None:
    assert accuracy(np.array([1, 0]), np.array([1, 1])) == 0.5
    assert pearson(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(1)


@pytest.mark.parametrize("metric", [accuracy, matthews, pearson, spearman, lambda one, other: f1(one, other, 1)])
def test_uneven_and_empty_lists_are_errors(metric) -> None:
    with pytest.raises(ValueError, match="2 predictions and 1 gold labels; the numbers must be equal"):
        metric([1, 2], [1])
    with pytest.raises(ValueError, match="nothing to score"):
        metric([], [])


def test_numbers_that_are_not_finite_are_errors() -> None:
    with pytest.raises(ValueError, match="predicted number 2 is nan"):
        pearson([1, math.nan, 3], [1, 2, 3])
    with pytest.raises(ValueError, match="gold number 3 is inf"):
        spearman([1, 2, 3], [1, 2, math.inf])
