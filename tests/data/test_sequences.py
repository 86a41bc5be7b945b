import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sequences import encode, fit, marked, text_batch
from texts import TOKENIZER

BEGIN, END = TOKENIZER.begin, TOKENIZER.end


def test_texts_get_their_marks_and_segments() -> None:
    one, two = encode(TOKENIZER, ["the dog", "bread"], [None, "food"], max_length=20)
    dog = TOKENIZER.encode(["the dog"])[0]
    assert one.tokens == [BEGIN, *dog, END]
    assert one.segments == [0] * len(one.tokens)
    bread, food = TOKENIZER.encode(["bread", "food"])
    assert two.tokens == [BEGIN, *bread, END, *food, END]
    assert two.segments == [0] * (len(bread) + 2) + [1] * (len(food) + 1)
    batch = text_batch(TOKENIZER, [one, two])
    assert batch.tokens_BT.shape == batch.segments_BT.shape == (2, max(len(one.tokens), len(two.tokens)))
    assert len(one.tokens) != len(two.tokens)
    assert (~batch.is_padding_BT).sum(1).tolist() == [len(one.tokens), len(two.tokens)]
    assert len(batch.inputs) == 3
    assert len(text_batch(TOKENIZER, [one]).inputs) == 2
    assert not one.is_truncated


@given(st.integers(0, 9), st.one_of(st.none(), st.integers(0, 9)), st.integers(4, 14))
def test_the_longer_text_is_cut_token_by_token(one, other, max_length) -> None:
    first, second = list(range(100, 100 + one)), None if other is None else list(range(200, 200 + other))
    got = marked(TOKENIZER, first, second, max_length)
    marks = 2 if second is None else 3
    first, rest = list(first), list(second or [])
    while len(first) + len(rest) > max_length - marks:
        (first if len(first) > len(rest) else rest).pop()
    assert got.tokens == [BEGIN, *first, END, *([] if second is None else [*rest, END])]
    assert got.first == len(first) + 2
    assert got.is_truncated == (one + (other or 0) > max_length - marks)


def test_without_a_limit_nothing_is_cut() -> None:
    first, second = list(range(100, 5000)), list(range(200, 9000))
    assert marked(TOKENIZER, first, None, None).tokens == [BEGIN, *first, END]
    got = marked(TOKENIZER, first, second, None)
    assert got.tokens == [BEGIN, *first, END, *second, END]
    assert not got.is_truncated


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 50))
def test_the_longer_text_loses_token_by_token(one, other, room) -> None:
    expected = [one, other]
    while sum(expected) > room:
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert list(fit(one, other, room)) == expected
    assert np.stack(fit(np.array([one]), np.array([other]), room), axis=1).tolist() == [expected]
    assert min(expected) > 0


@pytest.mark.parametrize("orders", [False, True])
def test_a_mask_is_an_order_only_where_orders_are_taken(orders) -> None:
    (got,) = encode(TOKENIZER, ["the [MASK] ran"], max_length=24, orders=orders)
    assert (TOKENIZER.mask in got.tokens) == orders
