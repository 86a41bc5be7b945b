import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from regard import toml

CHARACTERS = st.characters(exclude_categories=["Cs"])  # TOML is UTF-8, which has no lone surrogates
TEXT = st.text(CHARACTERS)
PLAIN = TEXT | st.booleans() | st.integers() | st.floats(allow_nan=False)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner))


@given(st.dictionaries(TEXT, VALUES))
def test_any_table_survives_a_toml_round_trip(table: dict[str, Any]) -> None:
    assert tomllib.loads(toml.dumps(table)) == table


def test_toml_output_is_readable() -> None:
    table = {
        "run": "runs/é",
        "none": None,
        "train": {"rate": 1e-05, "most": float("inf"), "odd key": True, "empty": {}},
        "files": ({"path": 'a"\\b\n\x7f', "target": None},),
    }
    assert (
        toml.dumps(table)
        == r"""run = "runs/é"
files = [{path = "a\"\\b\n\u007f"}]

[train]
rate = 1e-05
most = inf
"odd key" = true

[train.empty]
"""
    )
