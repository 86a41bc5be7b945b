import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.sequences import encode, fit, text_batch, with_special_tokens
from texts import TOKENIZER

BEGIN, END = TOKENIZER.begin, TOKENIZER.end


def test_texts_have_special_tokens_and_segments() -> None:
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
def test_the_longer_text_of_a_pair_is_truncated_token_by_token(one, other, max_length) -> None:
    first, second = list(range(100, 100 + one)), None if other is None else list(range(200, 200 + other))
    got = with_special_tokens(TOKENIZER, first, second, max_length)
    marks = 2 if second is None else 3
    first, rest = list(first), list(second or [])
    while len(first) + len(rest) > max_length - marks:
        (first if len(first) > len(rest) else rest).pop()
    assert got.tokens == [BEGIN, *first, END, *([] if second is None else [*rest, END])]
    assert got.first == len(first) + 2
    assert got.is_truncated == (one + (other or 0) > max_length - marks)


def test_without_a_maximum_length_nothing_is_truncated() -> None:
    first, second = list(range(100, 5000)), list(range(200, 9000))
    assert with_special_tokens(TOKENIZER, first, None, None).tokens == [BEGIN, *first, END]
    got = with_special_tokens(TOKENIZER, first, second, None)
    assert got.tokens == [BEGIN, *first, END, *second, END]
    assert not got.is_truncated


@given(st.integers(1, 60), st.integers(1, 60), st.integers(2, 50))
def test_fit_equals_truncation_of_the_longer_text_token_by_token(one, other, room) -> None:
    expected = [one, other]
    while sum(expected) > room:
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert list(fit(one, other, room)) == expected
    assert np.stack(fit(np.array([one]), np.array([other]), room), axis=1).tolist() == [expected]
    assert min(expected) > 0


@pytest.mark.parametrize("parse_specials", [False, True])
def test_mask_tokens_in_a_text_are_encoded_only_on_request(parse_specials) -> None:
    (got,) = encode(TOKENIZER, ["the [MASK] ran"], max_length=24, parse_specials=parse_specials)
    assert (TOKENIZER.mask in got.tokens) == parse_specials
