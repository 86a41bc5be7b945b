"""Writes TOML; Python's `tomllib` only reads it."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(table: Mapping[str, Any]) -> str:
    """A table as TOML text. TOML has no null, so keys whose value is None are left out."""
    return "".join(_lines(table, "")).lstrip("\n")


def _lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    """Plain values first, because all lines after a table's header belong to that table."""
    given = {_key(key): inner for key, inner in table.items() if inner is not None}
    yield from (f"{key} = {value(inner)}\n" for key, inner in given.items() if not isinstance(inner, Mapping))
    for key, inner in given.items():
        if isinstance(inner, Mapping):
            yield f"\n[{path}{key}]\n"
            yield from _lines(inner, f"{path}{key}.")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else value(key)


def value(given: Any) -> str:
    """A value as TOML, on one line."""
    if isinstance(given, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {value(x)}" for k, x in given.items() if x is not None) + "}"
    if isinstance(given, list | tuple):
        return f"[{', '.join(map(value, given))}]"
    if isinstance(given, str):
        # JSON's escapes are valid TOML, but JSON does not escape DEL
        return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, int | float):
        return repr(given)
    raise TypeError(f"TOML cannot represent {type(given).__name__}")
