"""Strict, frozen configs: read from TOML, changed by dotted overrides, written back as JSON.

A config is a frozen dataclass that inherits from `Config`. `parse` checks it once, where it enters the program: unknown
keys, wrong types and impossible combinations come out as one `ConfigError` that lists every problem with its path, its
value and a remedy.
"""

import dataclasses
import difflib
import json
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]
Rate = Annotated[float, Field(ge=0, lt=1)]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a config: where (a dotted path), and what to do about it."""

    path: str
    text: str

    def within(self, prefix: str) -> "Problem":
        """The same problem, seen from the config that contains this one."""
        return Problem(".".join(filter(None, (prefix, self.path))), self.text)

    def __str__(self) -> str:
        return f"{self.path}: {self.text}" if self.path else self.text


class ConfigError(ValueError):
    """Everything that is wrong with a config, in one message."""

    def __init__(self, problems: Sequence[Problem], source: str = "") -> None:
        self.problems = tuple(problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "1 problem"
        super().__init__("\n  ".join([f"{source or 'config'}: {count}", *map(str, problems)]))


class Config:
    """Base of all configs. Subclasses are dataclasses with `frozen=True, kw_only=True`."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of values; `preset = "base"` in a file stands for them, and keys beside it win over them."""

    def problems(self) -> Iterator[Problem]:
        """Values that cannot go together. Subclasses yield one `Problem` for each."""
        yield from ()

    def __post_init__(self) -> None:
        if problems := tuple(self.problems()):
            raise ConfigError(problems, type(self).__name__)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The config of that name, with `changes`."""
        return parse(cls, {"preset": name, **changes}, source=f"{cls.__name__}.preset")

    def to_json(self) -> str:
        """This config as JSON text; `parse(kind, json.loads(text))` reads it back."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"  # type: ignore[call-overload]


C = TypeVar("C", bound=Config)


def parse(kind: type[C], data: Mapping[str, Any], source: str = "") -> C:
    """Checks `data` and makes a config of it; `source` names the origin in errors."""
    problems: list[Problem] = []
    data = _expand_presets(kind, data, "", problems)
    if problems:
        raise ConfigError(problems, source)
    try:
        # JSON, because pydantic's strict mode takes tables for dataclasses only there
        return TypeAdapter(kind).validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        found = [problem for details in error.errors() for problem in _explain(kind, data, details)]
        raise ConfigError(found, source) from None


def load(kind: type[C], path: Path, overrides: Sequence[str] = ()) -> C:
    """Reads a TOML file, applies overrides such as `model.layers=6`, checks the result."""
    return parse(kind, override(read_toml(path), overrides), source=str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; errors name the file and the line."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError([Problem("", f"line {line} is not UTF-8; save the file as UTF-8")], str(path)) from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem("", f"not valid TOML: {error}")], str(path)) from None


def override(data: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `data` with each `dotted.path=value` applied; values are TOML, or else plain text."""
    result: dict[str, Any] = json.loads(json.dumps(data, default=str))
    problems = []
    for text in overrides:
        path, equals, value = text.partition("=")
        keys = [key.strip() for key in path.split(".")]
        if not equals or not all(keys):
            problems.append(Problem("", f"cannot read the override '{text}'; write it as path.to.key=value"))
            continue
        table = result
        for depth, key in enumerate(keys[:-1], start=1):
            table = table.setdefault(key, {})
            if not isinstance(table, dict):
                here = ".".join(keys[:depth])
                problems.append(Problem(path, f"{here} = {_show(table)} is a value and has no keys of its own"))
                break
        else:
            table[keys[-1]] = _toml_value(value.strip())
    if problems:
        raise ConfigError(problems, "overrides")
    return result


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text


def _expand_presets(annotation: Any, data: Any, path: str, problems: list[Problem]) -> Any:
    """Replaces `preset = name` by the values it stands for, in every table that has one."""
    kind = _config_class(annotation, data)
    if kind is None or not isinstance(data, Mapping):
        return data
    data = dict(data)
    if kind.presets and "preset" in data:
        name = data.pop("preset")
        if name in kind.presets:
            data = {**kind.presets[name], **data}
        else:
            known = _one_of(list(kind.presets), name)
            problems.append(Problem("", f"no such preset; {known}").within(f"{_join(path, 'preset')} = {_show(name)}"))
    hints = typing.get_type_hints(kind, include_extras=True)
    return {
        key: _expand_presets(hints[key], value, _join(path, key), problems) if key in hints else value
        for key, value in data.items()
    }


def _config_class(annotation: Any, data: Any) -> type[Config] | None:
    """The config class that `data` is meant for: the only one, or in a union the one of that `kind`."""
    while typing.get_origin(annotation) is Annotated:
        annotation = typing.get_args(annotation)[0]
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        choices = [c for c in (_config_class(a, data) for a in typing.get_args(annotation)) if c]
        if len(choices) > 1 and isinstance(data, Mapping):
            choices = [c for c in choices if getattr(c, "kind", None) == data.get("kind")]
        return choices[0] if choices else None
    return annotation if isinstance(annotation, type) and issubclass(annotation, Config) else None


_EXPECTED = {
    "bool": "true or false",
    "dataclass": "a table of keys",
    "dict": "a table of keys",
    "float": "a number",
    "finite": "a finite number",
    "int": "a whole number",
    "list": "a list",
    "string": "text in quotes",
    "tuple": "a list",
}
_LIMITS = {"ge": "at least", "gt": "more than", "le": "at most", "lt": "less than"}


def _explain(kind: type[Config], data: Mapping[str, Any], details: ErrorDetails) -> Iterator[Problem]:
    """Turns one of pydantic's errors into ours."""
    name, context, value = details["type"], details.get("ctx", {}), details["input"]
    path, owner = _locate(kind, data, details["loc"], missing=name == "missing")
    here = f"{path} = {_show(value)}" if path else ""
    expected = _EXPECTED.get(name.split("_")[0])
    limit = next((key for key in _LIMITS if key in context), None)
    if isinstance(inner := context.get("error"), ConfigError):
        yield from (problem.within(path) for problem in inner.problems)
    elif name == "missing":
        yield Problem(path, "is required and missing; add it")
    elif name == "union_tag_not_found":
        yield Problem(_join(path, "kind"), "is required and missing; add it")
    elif name == "union_tag_invalid":
        yield Problem(f"{_join(path, 'kind')} = {_show(value['kind'])}", _one_of(_quoted(context), value["kind"]))
    elif name in ("unexpected_keyword_argument", "extra_forbidden"):
        known = [f.name for f in dataclasses.fields(owner)]
        yield Problem(here, f"no such key; {_nearest(details['loc'][-1], known, path)}")
    elif name == "literal_error":
        yield Problem(here, _one_of(_quoted(context), value))
    elif limit:
        yield Problem(here, f"must be {_LIMITS[limit]} {context[limit]}")
    elif expected:
        yield Problem(here, f"expected {expected}, got {_describe(value)}{_unquoted(path, value, expected)}")
    else:
        yield Problem(here, details["msg"])


def _locate(kind: Any, data: Any, location: Sequence[str | int], missing: bool) -> tuple[str, Any]:
    """The dotted path of an error, without the union tags that pydantic puts in, and the config it is a key of."""
    path, annotation, owner = "", kind, None
    for depth, step in enumerate(location, start=1):
        is_key = isinstance(data, Mapping) and step in data
        is_missing_key = missing and depth == len(location)
        is_index = isinstance(data, list) and isinstance(step, int)
        if is_key or is_missing_key or is_index:
            path, owner = _join(path, str(step)), _config_class(annotation, data)
            annotation = typing.get_type_hints(owner, include_extras=True).get(str(step)) if owner else None
            data = data[step] if is_key or is_index else None
    return path, owner


def _nearest(word: Any, known: Sequence[str], path: str) -> str:
    close = difflib.get_close_matches(str(word), known, n=1)
    prefix = path.rpartition(".")[0]
    return f"did you mean {_join(prefix, close[0])}?" if close else f"known keys here are {', '.join(known)}"


def _quoted(context: Mapping[str, Any]) -> list[str]:
    """The words that pydantic lists in quotes."""
    return re.findall(r"'([^']*)'", context.get("expected_tags") or context["expected"])


def _one_of(known: Sequence[str], word: Any = None) -> str:
    close = difflib.get_close_matches(str(word), known, n=1)
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"expected one of {', '.join(map(repr, known))}{hint}"


def _unquoted(path: str, value: Any, expected: str) -> str:
    """Where text holds what was expected, says how to write it."""
    if isinstance(value, str) and expected != _EXPECTED["string"] and not isinstance(_toml_value(value), str):
        return f"; write {path} = {value}"
    if expected == _EXPECTED["string"] and isinstance(value, int | float):
        return f'; write {path} = "{value}"'
    return ""


def _describe(value: Any) -> str:
    names = {bool: "true or false", int: "a whole number", float: "a number with a point", str: "text", list: "a list"}
    return "nothing" if value is None else names.get(type(value), "a table")


def _show(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
