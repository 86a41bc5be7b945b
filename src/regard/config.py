"""Strict, frozen configs: read from TOML, modified by dotted overrides, written as TOML or JSON.

A config is a frozen dataclass that inherits from `Config`. Unknown keys, wrong types and invalid combinations are
reported as one `ConfigError` that lists every problem with its path, its value and how to fix it.
"""

import copy
import dataclasses
import difflib
import json
import os.path
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from regard import toml
from regard.errors import RegardError

Positive = Annotated[int, Field(ge=1, le=10**9)]
Natural = Annotated[int, Field(ge=0, le=10**9)]
FilePath = Annotated[str, AfterValidator(os.path.expanduser)]  # a shell leaves the ~ in train=~/my.tsv as it is
Rate = Annotated[float, Field(ge=0, lt=1)]
# bounds far above any real model, so that no config takes all memory before it is compared with its weights
Layers = Annotated[int, Field(ge=1, le=1000)]
Width = Annotated[int, Field(ge=1, le=10**6)]
VocabSize = Annotated[int, Field(ge=1, le=10**7)]
NO_VALUE = object()


@dataclass(frozen=True)
class Problem:
    """One problem of a config: its dotted path, what is wrong and how to fix it, and the value if there is one."""

    path: str
    text: str
    value: Any = NO_VALUE

    def within(self, prefix: str) -> "Problem":
        """The same problem, with its path relative to the config that contains this one."""
        return dataclasses.replace(self, path=_join(prefix, self.path))

    def __str__(self) -> str:
        value = "" if self.value is NO_VALUE else f" = {_show(self.value)}"
        return f"{self.path}{value}: {self.text}" if self.path else self.text


class ConfigError(RegardError):
    """All problems of a config, in one message."""

    def __init__(self, problems: Sequence[Problem], source: str = "") -> None:
        self.problems = tuple(problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__("\n  ".join([f"{source or 'config'}: {count}", *map(str, problems)]))


class Config:
    """Base of all configs. Subclasses are dataclasses with `frozen=True, kw_only=True`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of values; `preset = "base"` in a file selects one, and the other keys in the file override it."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions, and their current names."""

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values. Subclasses yield one `Problem` for each."""
        yield from ()

    def __post_init__(self) -> None:
        problems = tuple(_wrong_fields(self)) or tuple(self.problems())
        if problems:
            raise ConfigError(problems, type(self).__name__)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The preset of that name, with `changes`."""
        return parse(cls, {"preset": name, **changes}, source=f"{cls.__name__}.preset")

    def to_json(self) -> str:
        """This config as JSON text; `parse(kind, json.loads(text))` reads it back."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"  # type: ignore[call-overload]

    def to_toml(self) -> str:
        """This config as TOML text, without the keys that have no value; `load` reads it back."""
        return toml.dumps(dataclasses.asdict(self))  # type: ignore[call-overload]


C = TypeVar("C", bound=Config)


def parse(kind: type[C], data: Mapping[str, Any], source: str = "") -> C:
    """Validates `data` and makes a config of it; `source` names its origin in errors."""
    problems = list(_foreign(data, ""))
    if problems:
        raise ConfigError(problems, source)
    data = _expand(kind, data, "", problems)
    wrong_preset = any(problem.path.split(".")[-1] == "preset" for problem in problems)
    while True:
        try:
            # JSON, because only there does pydantic's strict mode accept tables for dataclasses
            config = TypeAdapter(kind).validate_json(json.dumps(data))
        except ValidationError as error:
            unknown = [details for details in error.errors() if details["type"] in _UNKNOWN]
            for details in error.errors():
                # a missing key may be part of the preset that was meant
                if not (wrong_preset and details["type"] == "missing"):
                    problems += (p for p in _explain(kind, data, details) if p not in problems)
            if unknown:
                # without the unknown keys, validation can find invalid combinations of the known ones
                data = _without(data, [details["loc"] for details in unknown])
                continue
        if problems:
            raise ConfigError(problems, source)
        return config


def load(kind: type[C], path: Path, overrides: Sequence[str] = ()) -> C:
    """Reads a TOML file, applies overrides such as `model.layers=6`, and validates the result."""
    return parse(kind, override(read_toml(path), overrides), source=str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file; errors name the file and the line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError([Problem("", f"line {line} is not UTF-8; save the file as UTF-8")], str(path)) from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError([Problem("", f"not valid TOML: {error}")], str(path)) from None


def override(data: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `data` with each `dotted.path=value` applied; values are parsed as TOML, or else taken as text."""
    result: dict[str, Any] = copy.deepcopy(dict(data))
    problems = []
    for text in overrides:
        path, equals, value = text.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or not all(keys) or _LONE_SURROGATE.search(text):
            problems.append(Problem("", f"cannot read the override {text!r}; write it as path.to.key=value"))
            continue
        table = result
        for depth, key in enumerate(keys[:-1], start=1):
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                problems.append(Problem(".".join(keys[:depth]), f"is not a table, so {path} cannot be set", table))
                break
        else:
            table[keys[-1]] = _toml_value(value.strip())
            if isinstance(table[keys[-1]], str) and (problem := _unreadable(value.strip())):
                problems.append(Problem(path, problem, value.strip()))
    if problems:
        raise ConfigError(problems, "overrides")
    return result


_LONE_SURROGATE = re.compile("[\ud800-\udfff]")  # how Python decodes an argument that is not UTF-8


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _unreadable(text: str) -> str | None:
    """What is wrong with a value that looks like a table or list but is not valid TOML."""
    if (text[:1], text[-1:]) not in {("{", "}"), ("[", "]")}:
        return None
    try:
        tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError) as error:
        column = re.search(r"column (\d+)", str(error))
        place = text[max(0, int(column[1]) - 1 - len("value = ")) :] if column else text
        return f"not valid TOML at {place[:40]!r}; put texts in quotes, and commas between entries"
    return None


def _foreign(data: Any, path: str) -> Iterator[Problem]:
    """Values of types that no key accepts, such as a TOML date."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _foreign(value, _join(path, str(key)))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from _foreign(value, _join(path, str(index)))
    elif data is not None and not isinstance(data, str | int | float):
        yield Problem(path, f"is a {type(data).__name__}, which no key accepts; write it in quotes", str(data))


def _expand(annotation: Any, data: Any, path: str, problems: list[Problem]) -> Any:
    """Replaces `preset = name` by its values and old keys by the new ones, in every table."""
    if isinstance(data, list | tuple):
        return [_expand(_child(annotation, data, i), x, _join(path, str(i)), problems) for i, x in enumerate(data)]
    if not isinstance(data, Mapping):
        return data
    data, kind = dict(data), _config_class(annotation, data)
    for old, new in kind.renamed.items() if kind is not None else ():
        if old in data:
            problems.append(Problem(_join(path, old), f"renamed to {_join(path, new)}", data[old]))
            data.setdefault(new, data.pop(old))
    if kind is not None and kind.presets and "preset" in data:
        name = data.pop("preset")
        if isinstance(name, str) and name in kind.presets:
            data = {**kind.presets[name], **data}
        else:
            problems.append(
                Problem(_join(path, "preset"), f"no such preset; {_one_of(list(kind.presets), name)}", name)
            )
    return {key: _expand(_child(annotation, data, key), x, _join(path, key), problems) for key, x in data.items()}


def _without(data: Any, locations: Sequence[tuple[str | int, ...]]) -> Any:
    """A copy of `data` without the keys at these locations."""
    data = copy.deepcopy(data)
    for *steps, key in locations:
        table: Any = data
        for step in steps:
            is_union_tag = isinstance(table, dict) and step not in table
            table = table if is_union_tag else table[step]
        del table[key]
    return data


def _hints(kind: type[Config]) -> dict[str, Any]:
    """The annotation of each field."""
    fields = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind, include_extras=True)
    return {name: hint for name, hint in hints.items() if name in fields}


def _config_class(annotation: Any, data: Any) -> type[Config] | None:
    """The config class that `data` is meant for: the only one, or in a union the one of that `kind`."""
    if typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        choices = [c for c in (_config_class(a, data) for a in typing.get_args(annotation)) if c]
        if len(choices) > 1 and isinstance(data, Mapping):
            choices = [c for c in choices if getattr(c, "kind", None) == data.get("kind")]
        return choices[0] if choices else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, Config) else None


def _child(annotation: Any, data: Any, step: str | int) -> Any:
    """The annotation of the entry `step` of `data`, given the annotation of `data`."""
    if kind := _config_class(annotation, data):
        return _hints(kind).get(str(step))
    while typing.get_origin(annotation) in (Annotated, types.UnionType, typing.Union):
        annotation = typing.get_args(annotation)[0]
    arguments = typing.get_args(annotation)
    return arguments[-1 if typing.get_origin(annotation) is dict else 0] if arguments else None


@cache
def _adapters(kind: Any) -> dict[str, TypeAdapter[Any]]:
    return {name: TypeAdapter(hint) for name, hint in _hints(kind).items()}


def _wrong_fields(config: Config) -> Iterator[Problem]:
    """Fields of a config made in Python whose values do not match their types."""
    kind: Any = type(config)
    for name, adapter in _adapters(kind).items():
        value = getattr(config, name)
        try:
            adapter.validate_python(value, strict=True)
        except ValidationError as error:
            for details in error.errors():
                yield from _explain(kind, {name: value}, {**details, "loc": (name, *details["loc"])})


_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden")
_EXPECTED: dict[str, tuple[str, tuple[type, ...]]] = {
    "bool": ("true or false", (bool,)),
    "dataclass": ("a table of keys", (dict,)),
    "dict": ("a table of keys", (dict,)),
    "float": ("a number", (int, float)),
    "int": ("a whole number", (int,)),
    "list": ("a list", (list,)),
    "string": ("text in quotes", (str,)),
    "tuple": ("a list", (list,)),
}
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _explain(kind: type[Config], data: Mapping[str, Any], details: ErrorDetails) -> Iterator[Problem]:
    """Converts an error of pydantic into problems."""
    name, context, value = details["type"], details.get("ctx", {}), details["input"]
    path, owner = _locate(kind, data, details["loc"], missing=name == "missing")
    limit = next((key for key in _LIMITS if key in context), None)
    if isinstance(inner := context.get("error"), ConfigError):
        yield from (problem.within(path) for problem in inner.problems)
    elif name == "missing":
        yield Problem(path, "is required and missing; add it")
    elif name == "union_tag_not_found":
        yield Problem(_join(path, "kind"), "is required and missing; add it")
    elif name == "union_tag_invalid":
        yield Problem(_join(path, "kind"), _one_of(_quoted(context["expected_tags"]), value["kind"]), value["kind"])
    elif name in _UNKNOWN and owner is not None:
        known = [*_hints(owner), *(["preset"] if owner.presets else [])]
        yield Problem(path, f"no such key; {_nearest(str(details['loc'][-1]), known, path)}", value)
    elif name == "literal_error":
        yield Problem(path, _one_of(_quoted(context["expected"]), value), value)
    elif limit:
        yield Problem(path, f"must be {_LIMITS[limit]} {context[limit]}", value)
    elif name.split("_")[0] in _EXPECTED:
        expected, types_ = _EXPECTED[name.split("_")[0]]
        yield Problem(path, f"expected {expected}, got {_describe(value)}{_remedy(path, value, types_)}", value)
    else:
        yield Problem(path, details["msg"], value)


def _locate(
    annotation: Any, data: Any, location: Sequence[str | int], missing: bool
) -> tuple[str, type[Config] | None]:
    """The dotted path of an error, without pydantic's union tags, and the config class that the key belongs to."""
    path, owner = "", None
    for depth, step in enumerate(location, start=1):
        is_key = isinstance(data, Mapping) and step in data
        is_missing_key = missing and depth == len(location)
        is_index = isinstance(data, list | tuple) and isinstance(step, int)
        if is_key or is_missing_key or is_index:
            path, owner = _join(path, str(step)), _config_class(annotation, data)
            annotation = _child(annotation, data, step)
            data = data[step] if is_key or is_index else None
    return path, owner


def _nearest(word: str, known: Sequence[str], path: str) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    prefix = path.rpartition(".")[0]
    return f"did you mean {_join(prefix, close[0])}?" if close else f"known keys here are {', '.join(known)}"


def _quoted(text: str) -> list[str]:
    """The words that pydantic lists in quotes, or else the whole text."""
    return re.findall(r"'([^']*)'", text) or [text]


def _one_of(known: Sequence[str], word: Any) -> str:
    close = difflib.get_close_matches(str(word), known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"expected one of {', '.join(map(repr, known))}{hint}"


def _remedy(path: str, value: Any, expected: tuple[type, ...]) -> str:
    """How to write the value, if quotes are missing or superfluous."""
    if isinstance(value, str) and type(_toml_value(value)) in expected:
        return f"; write {path} = {value}"
    if str in expected and isinstance(value, int | float):
        return f'; write {path} = "{_show(value)}"'
    return ""


def _describe(value: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a decimal number", str: "text", dict: "a table"}
    return "nothing" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path and key else path or key
