import json
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from regard.config import Config, ConfigError, Positive, Problem, Rate, load, override, parse


@dataclass(frozen=True, kw_only=True)
class Cat(Config):
    kind: Literal["cat"] = "cat"
    width: Positive
    heads: Positive = 2
    presets: ClassVar = {"small": {"width": 4}, "large": {"width": 64, "heads": 8}}

    def problems(self) -> Iterator[Problem]:
        if self.width % self.heads:
            yield Problem("width", f"not divisible by heads = {self.heads}", self.width)
        if self.width > 1000:
            yield Problem("width", "too wide", self.width)


@dataclass(frozen=True, kw_only=True)
class Dog(Config):
    kind: Literal["dog"] = "dog"
    tail: Literal["long", "short"] = "long"
    names: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class House(Config):
    animal: Annotated[Cat | Dog, Field(discriminator="kind")]
    rate: Rate = 0.1
    warm: bool = False
    name: str = ""
    rooms: dict[str, int] = field(default_factory=dict)
    cats: tuple[Cat, ...] = ()
    shelves: dict[str, Cat] = field(default_factory=dict)


def problems(data: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as error:
        parse(House, data)
    return [str(problem) for problem in error.value.problems]


def test_a_config_is_parsed_and_serialised() -> None:
    house = parse(House, {"animal": {"kind": "dog", "names": ["a", "é"]}, "rate": 0, "name": "x"})
    assert house.animal == Dog(names=("a", "é"))
    assert parse(House, json.loads(house.to_json())) == house


@given(st.integers(1, 500), st.integers(1, 8), st.floats(0, 1, exclude_max=True), st.booleans(), st.text())
def test_a_config_survives_a_json_round_trip(multiple, heads, rate, warm, name) -> None:
    house = House(animal=Cat(width=multiple * heads % 1000 or heads, heads=1), rate=rate, warm=warm, name=name)
    assert parse(House, json.loads(house.to_json())) == house


def test_configs_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Cat(width=4).width = 6  # type: ignore[misc]


def test_an_unknown_key_is_reported_with_the_nearest_known_key() -> None:
    assert problems({"animal": {"kind": "cat", "width": 4, "haeds": 3}}) == [
        "animal.haeds = 3: no such key; did you mean animal.heads?"
    ]
    assert problems({"animal": {"kind": "cat", "width": 4}, "zzz": 1}) == [
        "zzz = 1: no such key; known keys here are animal, rate, warm, name, rooms, cats, shelves"
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"width": "4"}, 'animal.width = "4": expected a whole number, got text; write animal.width = 4'),
        ({"width": 4.0}, "animal.width = 4.0: expected a whole number, got a decimal number"),
        ({"width": True}, "animal.width = true: expected a whole number, got true or false"),
        ({"width": [4]}, "animal.width = [4]: expected a whole number, got a list"),
        ({"width": {"x": 1}}, 'animal.width = {"x": 1}: expected a whole number, got a table'),
        ({"width": 0}, "animal.width = 0: must be at least 1"),
        ({}, "animal.width: is required and missing; add it"),
        ({"width": 5}, "animal.width = 5: not divisible by heads = 2"),
        ({"width": 1001, "heads": 7}, "animal.width = 1001: too wide"),
    ],
)
def test_invalid_values_are_reported_with_a_remedy(data, message) -> None:
    assert problems({"animal": {"kind": "cat", **data}}) == [message]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"rate": 1.0}, "rate = 1.0: must be less than 1.0"),
        ({"rate": float("nan")}, "rate = NaN: must be less than 1.0"),
        ({"rate": "much"}, 'rate = "much": expected a number, got text'),
        ({"warm": 1}, "warm = 1: expected true or false, got a whole number"),
        ({"name": 2024}, 'name = 2024: expected text in quotes, got a whole number; write name = "2024"'),
        ({"animal": 3}, "animal = 3: expected a table of keys, got a whole number"),
        (
            {"animal": {"kind": "dog", "tail": "shrot"}},
            "animal.tail = \"shrot\": expected one of 'long', 'short'; did you mean 'short'?",
        ),
        (
            {"animal": {"kind": "dog", "names": ["a", 2]}},
            'animal.names.1 = 2: expected text in quotes, got a whole number; write animal.names.1 = "2"',
        ),
        ({"rooms": {"hall": "big"}}, 'rooms.hall = "big": expected a whole number, got text'),
    ],
)
def test_invalid_values_of_other_types_are_reported(data, message) -> None:
    assert problems({"animal": {"kind": "dog"}, **data}) == [message]


def test_an_unknown_kind_is_reported_with_the_known_ones() -> None:
    (message,) = problems({"animal": {"kind": "cta"}})
    assert message == "animal.kind = \"cta\": expected one of 'cat', 'dog'; did you mean 'cat'?"
    (message,) = problems({"animal": {}})
    assert message == "animal.kind: is required and missing; add it"


def test_unknown_keys_do_not_hide_invalid_combinations() -> None:
    assert problems({"animal": {"kind": "cat", "width": 5, "x": 1}, "y": 2}) == [
        "animal.x = 1: no such key; known keys here are kind, width, heads, preset",
        "y = 2: no such key; known keys here are animal, rate, warm, name, rooms, cats, shelves",
        "animal.width = 5: not divisible by heads = 2",
    ]


def test_problems_in_lists_and_tables_are_reported_with_their_path() -> None:
    dog = {"kind": "dog"}
    assert problems({"animal": dog, "cats": [{"width": 4}, {"width": 4, "haeds": 1}, {"width": "4"}]}) == [
        "cats.1.haeds = 1: no such key; did you mean cats.1.heads?",
        'cats.2.width = "4": expected a whole number, got text; write cats.2.width = 4',
    ]
    assert problems({"animal": dog, "shelves": {"top": {"width": 5}, "low": {"width": 4, "z": 0}}}) == [
        "shelves.top.width = 5: not divisible by heads = 2",
        "shelves.low.z = 0: no such key; known keys here are kind, width, heads, preset",
    ]
    house = parse(House, {"animal": dog, "cats": [{"preset": "small"}], "shelves": {"top": {"preset": "large"}}})
    assert house.cats == (Cat(width=4),)
    assert house.shelves == {"top": Cat(width=64, heads=8)}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rate": -0.1}, "rate = -0.1: must be at least 0.0"),
        ({"warm": None}, "warm = null: expected true or false, got nothing"),
        ({"name": True}, 'name = true: expected text in quotes, got true or false; write name = "true"'),
        ({"name": [1]}, "name = [1]: expected text in quotes, got a list"),
        ({"warm": "[1]"}, 'warm = "[1]": expected true or false, got text'),
        ({"rate": "0.5"}, 'rate = "0.5": expected a number, got text; write rate = 0.5'),
        ({"cats": 3}, "cats = 3: expected a list, got a whole number"),
        ({"name": 10**70}, f"name = {str(10**70)[:57]}...: expected text in quotes, got a whole number"),
        ({"rooms": {"é": "x"}}, 'rooms.é = "x": expected a whole number, got text'),
        ({"name": Path("x")}, 'name = "x": is a PosixPath, which no key accepts; write it in quotes'),
        (
            {"animal": {"kind": "cat", "preset": [1]}},
            "animal.preset = [1]: no such preset; expected one of 'small', 'large'",
        ),
        (
            {"animal": {"kind": "cat", "prest": "small", "width": 4}},
            'animal.prest = "small": no such key; did you mean animal.preset?',
        ),
        ({"animal": {"kind": "cat", "width": 10**10}}, "animal.width = 10000000000: must be at most 1000000000"),
    ],
)
def test_unusual_invalid_values_are_reported(changes, message) -> None:
    (found,) = problems({"animal": {"kind": "dog"}, **changes})
    assert found.startswith(message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cat(width="4"), 'width = "4": expected a whole number, got text; write width = 4'),
        (lambda: Cat(width=4, heads=0), "heads = 0: must be at least 1"),
        (lambda: Dog(tail="lnog"), "tail = \"lnog\": expected one of 'long', 'short'; did you mean 'long'?"),
        (
            lambda: House(animal=Dog(), cats=(Cat(width=4), 3)),
            "cats.1 = 3: expected a table of keys, got a whole number",
        ),
    ],
)
def test_configs_constructed_in_python_are_checked(make, message) -> None:
    with pytest.raises(ConfigError) as error:
        make()
    assert [str(problem) for problem in error.value.problems] == [message]


def test_an_error_without_a_source_names_the_config() -> None:
    with pytest.raises(ConfigError, match="^config: 1 problem\n"):
        parse(Cat, {})
    assert Cat(width=4).to_json().endswith("}\n")


def test_several_problems_are_reported_together() -> None:
    found = problems({"animal": {"kind": "cat", "width": "4", "heads": 0, "x": 1}, "rate": 2, "wram": True})
    assert len(found) == 5
    with pytest.raises(ConfigError, match="house.toml: 2 problems\n  rate = 2: .*\n  warm = 3: "):
        parse(House, {"animal": {"kind": "dog"}, "rate": 2, "warm": 3}, "house.toml")


def test_problems_of_direct_construction_name_the_class() -> None:
    with pytest.raises(ConfigError, match="Cat: 1 problem\n  width = 5: not divisible by heads = 2"):
        Cat(width=5)


@dataclass(frozen=True, kw_only=True)
class Batches(Config):
    max_length: Positive
    rate: Rate = 0.1
    presets: ClassVar = {"long": {"max_length": 512}}
    renamed: ClassVar = {"longest": "max_length", "share": "rate"}


@dataclass(frozen=True, kw_only=True)
class Lessons(Config):
    data: Batches
    more: tuple[Batches, ...] = ()


def test_a_renamed_key_is_reported_with_its_new_name_and_its_value_is_checked() -> None:
    data = override({"data": {"longest": 48}, "more": [{"max_length": 8, "share": 2}]}, ["data.rat=1"])
    with pytest.raises(ConfigError) as error:
        parse(Lessons, data)
    assert [str(problem) for problem in error.value.problems] == [
        "data.longest = 48: renamed to data.max_length",
        "more.0.share = 2: renamed to more.0.rate",
        "data.rat = 1: no such key; did you mean data.rate?",
        "more.0.rate = 2: must be less than 1.0",
    ]
    with pytest.raises(ConfigError, match=r"1 problem\n  longest = 48: renamed to max_length$"):
        parse(Batches, {"preset": "long", "longest": 48})


def test_keys_override_the_values_of_a_preset() -> None:
    assert Cat.preset("large") == Cat(width=64, heads=8)
    assert Cat.preset("large", heads=4) == Cat(width=64, heads=4)
    house = parse(House, {"animal": {"kind": "cat", "preset": "large", "width": 32}})
    assert house.animal == Cat(width=32, heads=8)


def test_an_unknown_preset_is_reported() -> None:
    assert problems({"animal": {"kind": "cat", "preset": "lrage"}}) == [
        "animal.preset = \"lrage\": no such preset; expected one of 'small', 'large'; did you mean 'large'?"
    ]
    assert problems({"animal": {"kind": "dog", "preset": "large"}}) == [
        'animal.preset = "large": no such key; known keys here are kind, tail, names'
    ]


def test_overrides_are_parsed_as_toml_or_else_as_text() -> None:
    data = {"a": {"b": 1, "c": [1]}, "d": "x"}
    changed = override(data, ["a.b=2", "a.e.f=1e-3", "d=two words", "g=[1, 2]", "h=true", "i=", 'j="5"', "k=a=b"])
    assert changed == {
        "a": {"b": 2, "c": [1], "e": {"f": 1e-3}},
        "d": "two words", "g": [1, 2], "h": True, "i": "", "j": "5", "k": "a=b",
    }  # fmt: skip
    assert data == {"a": {"b": 1, "c": [1]}, "d": "x"}


def test_an_override_cannot_contain_a_second_override() -> None:
    assert override({}, ["a=1\nb=2"]) == {"a": "1\nb=2"}


def test_unusual_override_values_are_text_or_reported() -> None:
    digits = "9" * 5000
    assert override({}, [f"a={digits}", f"b={'[' * 5000}", " c . d = x "]) == {
        "a": digits, "b": "[" * 5000, "c": {"d": "x"},
    }  # fmt: skip
    with pytest.raises(ConfigError, match="cannot read the override"):
        override({}, ["a=\udce9"])


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("{path='a' target='b'}", "\"target='b'}\""),
        ("{path=a, target=b}", "'a, target=b}'"),
        ("['a' 'b']", "\"'b']\""),
        ("[a, b]", "'a, b]'"),
    ],
)
def test_a_table_or_list_that_is_not_toml_is_reported_with_the_place(value, place) -> None:
    with pytest.raises(ConfigError) as error:
        override({}, [f"data.train={value}"])
    (problem,) = error.value.problems
    assert problem.text == f"not valid TOML at {place}; put texts in quotes, and commas between entries"


def test_invalid_overrides_are_reported_together() -> None:
    with pytest.raises(ConfigError) as error:
        override({"a": 1}, ["nonsense", "=3", "a.b=1", "a..b=1"])
    assert [str(problem) for problem in error.value.problems] == [
        "cannot read the override 'nonsense'; write it as path.to.key=value",
        "cannot read the override '=3'; write it as path.to.key=value",
        "a = 1: is not a table, so a.b cannot be set",
        "cannot read the override 'a..b=1'; write it as path.to.key=value",
    ]


def test_toml_files_are_read_with_overrides(tmp_path: Path) -> None:
    path = tmp_path / "house.toml"
    path.write_bytes("\ufeffname = 'héllo'\n[animal]\nkind = 'cat'\nwidth = 4\n".encode())
    assert load(House, path, ["animal.heads=4", "rate=0.5"]) == House(
        animal=Cat(width=4, heads=4), rate=0.5, name="héllo"
    )


def test_unreadable_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere.toml"):
        load(House, tmp_path / "nowhere.toml")
    path = tmp_path / "house.toml"
    path.write_bytes(b"a = 1\nname = '\xe9'\n")
    with pytest.raises(ConfigError, match="house.toml: 1 problem\n  line 2 is not UTF-8"):
        load(House, path)
    path.write_text("a = 1\nb = = 2\n")
    with pytest.raises(ConfigError, match=r"house.toml: 1 problem\n  not valid TOML: .*line 2"):
        load(House, path)


def test_a_toml_date_is_reported_like_other_invalid_values(tmp_path: Path) -> None:
    path = tmp_path / "house.toml"
    path.write_text("warm = 2024-01-01\nanimal.kind = 'dog'\n")
    with pytest.raises(ConfigError, match='warm = "2024-01-01": is a date, which no key accepts'):
        load(House, path)
