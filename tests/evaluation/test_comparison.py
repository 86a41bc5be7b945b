from itertools import product
from math import comb

import numpy as np
import pytest

from regard.evaluation.comparison import Examples, compare, percent, rows


def accuracy(values: np.ndarray) -> dict[str, float]:
    return {"accuracy": float(np.mean(values))}


def total(values: np.ndarray) -> dict[str, float]:
    return {"total": float(values.sum())}


def p_values(one: Examples, other: Examples, samples: int = 2000) -> float:
    (found,) = compare([one, other], samples)
    assert found.p_values[0] is None
    assert found.p_values[1] is not None
    return found.p_values[1]


def test_the_p_value_is_that_of_all_swaps() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(size=7), rng.normal(size=7) + 0.7
    difference = other - one
    swaps = [abs(np.dot(signs, difference)) for signs in product([1, -1], repeat=7)]
    exact = np.mean([swap >= abs(difference.sum()) - 1e-9 for swap in swaps])
    # the standard error of 2,000 samples is at most 0.011
    assert p_values(Examples(one, total), Examples(other, total)) == pytest.approx(exact, abs=0.04)


def test_the_p_value_of_labels_is_that_of_the_sign_test() -> None:
    one, other = np.zeros(40), np.r_[np.ones(9), np.zeros(31)]
    one[38:] = 1  # two examples are better in the one, nine in the other
    exact = 2 * sum(comb(11, k) for k in range(3)) / 2**11
    assert p_values(Examples(one, accuracy), Examples(other, accuracy)) == pytest.approx(exact, abs=0.02)


def test_equal_scores_are_never_significant() -> None:
    one, other = np.r_[np.ones(50), np.zeros(50)], np.r_[np.zeros(50), np.ones(50)]
    assert p_values(Examples(one, accuracy), Examples(other, accuracy), 100) == 1.0
    assert p_values(Examples(one, accuracy), Examples(one, accuracy), 100) == 1.0
    # a single example tells nothing, however large the difference
    assert p_values(Examples(one[:1], accuracy), Examples(other[:1], accuracy), 100) == 1.0


def test_each_model_is_compared_with_the_first() -> None:
    perfect, poor = rows(["a", "b"] * 30), rows(["a", "a"] * 30)

    def score(given: np.ndarray) -> dict[str, float]:
        return percent({"accuracy": float(np.mean(given == perfect)), "a": float(np.mean(given == "a"))})

    accuracies, shares = compare([Examples(values, score) for values in (poor, perfect, poor)], 200)
    assert (accuracies.metric, accuracies.scores) == ("accuracy", (50.0, 100.0, 50.0))
    assert accuracies.p_values == (None, 1 / 201, 1.0)
    assert shares.scores == (100.0, 50.0, 100.0)


def test_a_row_of_several_numbers_is_swapped_as_a_whole() -> None:
    blocks = np.array([[1.0, 10.0], [2.0, 20.0]] * 20)

    def ratio(values: np.ndarray) -> dict[str, float]:
        assert {tuple(row) for row in values.tolist()} <= {(1, 10), (2, 20), (2, 10), (4, 20)}
        return {"ratio": values[:, 0].sum() / values[:, 1].sum()}

    worse = blocks * [2, 1]
    (found,) = compare([Examples(blocks, ratio, True), Examples(worse, ratio, True)], 100)
    assert found.lower_is_better
    assert found.scores == pytest.approx((0.1, 0.2))
    assert found.p_values[1] == 1 / 101


def test_models_on_different_test_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="the models have 3, 4 examples; compare models on the same test set"):
        compare([Examples(np.ones(n), accuracy) for n in (3, 4)])
