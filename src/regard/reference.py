"""All keys of a recipe, derived from the configs: a JSON schema for editors, and tables for readers."""

import ast
import dataclasses
import inspect
import json
import textwrap
import typing
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema

from regard import systems, toml
from regard.config import Config
from regard.recipe import Recipe

DIALECT = "https://json-schema.org/draft/2020-12/schema"
UNLIMITED = 10**6  # upper bounds from here on are no meaningful limit; not shown
INIT = "Model to start from (fine-tuning): a run's folder, a model's folder, or a bundled model."
PRESET = "Named set of values; other keys of the table override them."
TASK = "GLUE task: short for `data.task`, with `run` named after it."


class Key(NamedTuple):
    """A key of a table."""

    name: str
    type: str
    """Its type and limits, in words."""
    default: str
    """As TOML; or "required", "none", or "derived" (from codecs and data)."""
    meaning: str


class Table(NamedTuple):
    """The keys of a table of a recipe, or of one kind of a table with several kinds."""

    places: tuple[str, ...]
    """The dotted paths of the table, "" for the top level."""
    kinds: tuple[str, ...]
    about: str
    keys: tuple[Key, ...]
    presets: dict[str, dict[str, Any]]

    @property
    def title(self) -> str:
        """Its heading: its paths in a recipe, and its kind."""
        places = ", ".join(f"[{place}]" for place in self.places if place) or "Top level"
        return f"{places} kind = {' or '.join(map(toml.value, self.kinds))}" if self.kinds else places


def meanings(kind: type[Config]) -> dict[str, str]:
    """The meaning of each field: the string below it in the source, or its metadata if it has no source."""
    found = {field.name: field.metadata.get("meaning", "") for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if "kind" in found:
        found["kind"] = "Kind of this table."
    for base in reversed(kind.__mro__):
        with suppress(OSError, TypeError):  # a class without source code
            [body] = (node.body for node in ast.parse(textwrap.dedent(inspect.getsource(base))).body)  # type: ignore[attr-defined]
            for field, text in pairwise(body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                        found |= {name: " ".join(words.split())} if name in found else {}
    return found


def configs(annotation: Any = Recipe) -> Iterator[type[Config]]:
    """All configs in a recipe, and the recipe itself."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
        inner = tuple(typing.get_type_hints(annotation, include_extras=True).values())
    else:
        inner = typing.get_args(annotation)
    for each in inner:
        yield from configs(each)


class _Generator(GenerateJsonSchema):
    """Omits nulls, which TOML does not have, and titles, which only repeat the keys."""

    def nullable_schema(self, schema: Any) -> Any:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> Any:
        result = super().default_schema(schema)
        return {key: value for key, value in result.items() if (key, value) != ("default", None)}

    def tagged_union_schema(self, schema: Any) -> Any:
        # `kind` of a codec is optional; without it, several schemas may match
        return {"anyOf": super().tagged_union_schema(schema)["oneOf"]}

    def field_title_should_be_set(self, _schema: Any) -> bool:
        return False


def schema() -> dict[str, Any]:
    """The JSON schema of recipe files."""
    whole = TypeAdapter(Recipe).json_schema(schema_generator=_Generator)
    tables = {**whole["$defs"], Recipe.__name__: whole}
    for kind in dict.fromkeys(configs()):
        keys = tables[kind.__name__]["properties"]
        for name, meaning in meanings(kind).items():
            keys[name]["description"] = meaning
        if kind.presets:
            keys["preset"] = {"enum": list(kind.presets), "description": PRESET}
    for kind in systems.model_configs():
        table = tables[kind.__name__]
        table.pop("required", None)  # sizes may come from codecs, all other keys from `init`
        table["properties"]["init"] = {"type": "string", "description": INIT}
    for kind in systems.data_configs():
        table = tables[kind.__name__]
        table["required"] = ["kind", *table.get("required", [])]
    whole["properties"]["task"] = {"type": "string", "description": TASK}
    return {"$schema": DIALECT, **whole}


def tables() -> list[Table]:
    """The keys of every table in a recipe."""
    whole = schema()
    by_name = {kind.__name__: kind for kind in configs()}
    places: dict[str, dict[str, None]] = {}

    def visit(name: str, place: str) -> None:
        places.setdefault(name, {})[place] = None
        for key, node in _table(whole, name)["properties"].items():
            for inner in _tables_in(node):
                visit(inner, f"{place}.{key}".lstrip("."))

    visit(Recipe.__name__, "")
    return [_described(by_name[name], _table(whole, name), tuple(found)) for name, found in places.items()]


def _table(whole: dict[str, Any], name: str) -> dict[str, Any]:
    table: dict[str, Any] = whole["$defs"].get(name, whole)
    return table


def _tables_in(node: dict[str, Any]) -> Iterator[str]:
    """The names of the tables that a value may be or contain."""
    if "$ref" in node:
        yield node["$ref"].rpartition("/")[2]
    for inner in (*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())):
        yield from _tables_in(inner)


def _described(kind: type[Config], table: dict[str, Any], places: tuple[str, ...]) -> Table:
    required, properties = table.get("required", ()), table["properties"]
    bare = {f.name for f in dataclasses.fields(kind) if f.default is f.default_factory is dataclasses.MISSING}  # type: ignore[arg-type]
    keys = []
    for name, node in properties.items():
        absent = "required" if name in required else "derived" if name in bare else "none"
        default = toml.value(node["default"]) if "default" in node else absent
        keys.append(Key(name, words(node), absent if name in required else default, node["description"]))
    kinds = properties["kind"].get("enum") or [properties["kind"]["const"]] if "kind" in properties else []
    about = " ".join((kind.__doc__ or "").split())
    return Table(places, tuple(kinds), about, tuple(keys), {name: dict(each) for name, each in kind.presets.items()})


_WORDS = {"string": "text", "boolean": "true or false", "integer": "whole number", "number": "number"}


def words(node: dict[str, Any]) -> str:
    """The type and limits of a value, in words."""
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(map(words, node["anyOf"])))
    if "$ref" in node:
        return "table"
    if "const" in node:
        return toml.value(node["const"])
    if "enum" in node:
        return f"one of {', '.join(map(str, node['enum']))}"
    if node["type"] == "array":
        count = _limits(node.get("minItems"), None, node.get("maxItems"), None)
        # a tuple of fixed length has a type for each place, here always the same
        (item,) = {json.dumps(each) for each in node.get("prefixItems", [node.get("items")])}
        count = str(len(node["prefixItems"])) if "prefixItems" in node else count
        return f"list of {words(json.loads(item))}{count and f', length {count}'}"
    limits = _limits(*(node.get(key) for key in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")))
    return f"{_WORDS[node['type']]} {limits}".strip()


def _limits(minimum: Any, above: Any, maximum: Any, below: Any) -> str:
    """An interval, such as `≥ 1` or `in [0, 1)`."""
    maximum = None if maximum is not None and maximum >= UNLIMITED else maximum
    low = f"[{minimum:g}" if minimum is not None else f"({above:g}" if above is not None else ""
    high = f"{maximum:g}]" if maximum is not None else f"{below:g})" if below is not None else ""
    if low and high:
        return f"in {low}, {high}"
    return low.replace("[", "≥ ").replace("(", "> ") or high


def as_json() -> str:
    """The tables as JSON."""
    found = [{**table._asdict(), "keys": [key._asdict() for key in table.keys]} for table in tables()]
    return json.dumps(found, indent=2, ensure_ascii=False)


_PREFACE = """# Recipe keys

All keys that a recipe can have. Default: a value in TOML; *required*; *none*; or *derived* from codecs, data or
`model.init`.

This page is generated: `regard recipes --keys -o docs/recipe-keys.md`.
"""


def markdown() -> str:
    """The tables as a Markdown page."""
    parts = [_PREFACE]
    for table in tables():
        parts.append(f"## {table.title}\n\n{table.about}\n\n| key | type | default | meaning |\n|---|---|---|---|\n")
        for name, type_, default, meaning in table.keys:
            shown = f"*{default}*" if default in ("required", "none", "derived") else f"`{default}`"
            row = (f"`{name}`", type_, shown, meaning)
            parts[-1] += f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n"
        if table.presets:
            parts[-1] += "\n| preset | values |\n|---|---|\n"
        for name, values in table.presets.items():
            parts[-1] += f"| `{name}` | {shape(values)} |\n"
    return "\n".join(parts)


def shape(values: dict[str, Any]) -> str:
    """The values of a preset in one line."""
    return ", ".join(f"{key} = {toml.value(value)}" for key, value in values.items())
