import pytest

from regard.counts import counted


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (1000, "1,000 pairs"), (1001, "1,001 pairs")]
)
def test_only_one_is_singular(number, text) -> None:
    assert counted(number, "pair") == text


def test_a_plural_may_be_irregular() -> None:
    assert [counted(number, "prefix", "prefixes") for number in (1, 2)] == ["1 prefix", "2 prefixes"]
