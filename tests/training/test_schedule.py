from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.recipe import TrainConfig
from regard.training.schedule import learning_rate

SCHEDULES = ["constant", "inverse_sqrt", "linear", "cosine"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_rises_from_near_zero_and_ends_at_zero(schedule) -> None:
    config = TrainConfig(steps=1000, schedule=schedule, warmup=99, learning_rate=2.0, cooldown=0.2)
    rates = [learning_rate(config, step, step / 1000) for step in range(1001)]
    assert rates[0] == pytest.approx(0.02)
    assert rates[1000] == 0
    assert max(rates) <= 2
    assert all(one >= other for one, other in pairwise(rates[100:]))


@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", 1.0), ("inverse_sqrt", 0.5), ("linear", 0.6), ("cosine", 0.654508)]
)
def test_each_schedule_has_the_expected_learning_rate_in_the_middle(schedule, expected) -> None:
    config = TrainConfig(steps=1000, schedule=schedule, warmup=100, learning_rate=1.0, cooldown=0.2)
    assert learning_rate(config, 400, 0.4) == pytest.approx(expected, abs=1e-6)


def test_the_cooldown_is_the_last_fraction_of_any_budget() -> None:
    config = TrainConfig(minutes=5, schedule="constant", warmup=0, learning_rate=1.0, cooldown=0.25)
    assert [learning_rate(config, 7, p) for p in (0.5, 0.75, 0.875, 1.0)] == pytest.approx([1, 1, 0.5, 0])


@given(
    st.sampled_from(SCHEDULES), st.integers(0, 50), st.integers(0, 5000), st.floats(0, 1), st.sampled_from([0.0, 0.3])
)
def test_a_rate_is_never_negative_and_never_too_high(schedule, warmup, step, progress, cooldown) -> None:
    config = TrainConfig(steps=1, schedule=schedule, warmup=warmup, cooldown=cooldown, learning_rate=1.0)
    assert 0 <= learning_rate(config, step, progress) <= 1
