"""Reads JSONL: each line is a JSON object whose keys are the names of columns."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from regard.data.text import lines
from regard.errors import RegardError

_TYPES = {list: "a list", dict: "an object", bool: "true or false", int: "a number", float: "a number"}


def is_json_lines(path: Path) -> bool:
    """Whether the name of a file ends in `.jsonl` or `.jsonl.gz`."""
    return path.name.lower().removesuffix(".gz").endswith(".jsonl")


def records(path: Path, texts: Sequence[str], label: str | None) -> Iterator[tuple[int, list[str]]]:
    """The texts of each line, followed by the label as text if it is wanted, with the line number."""
    is_empty = True
    for number, line in enumerate(lines(path), start=1):
        if not line.strip():
            continue
        is_empty, where = False, f"{path}, line {number}"
        found = _object(line, where)
        missing = [name for name in [*texts, *([] if label is None else [label])] if found.get(name) is None]
        if missing:
            known = ", ".join(map(repr, found)) or "none"
            raise RegardError(f"{where}: no value for {missing[0]!r}; the keys of this line are {known}")
        fields = [_text(found[name], name, where) for name in texts]
        yield number, fields if label is None else [*fields, _label(found[label], label, where)]
    if is_empty:
        example = json.dumps({**dict.fromkeys(texts, "..."), **({} if label is None else {label: "..."})})
        raise RegardError(f"{path} is empty; each of its lines must be a JSON object such as {example}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RegardError(f"{where}: not JSON ({error}); write one JSON object per line") from None
    if not isinstance(found, dict):
        raise RegardError(f"{where}: not a JSON object but {_type(found)}; write one JSON object per line")
    return found


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str):
        raise RegardError(f"{where}: {name!r} is {_type(value)}, not a text; put it in quotes")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise RegardError(f"{where}: {name!r} has half of a surrogate pair (\\ud800 to \\udfff); remove it") from None
    return value


def _label(value: Any, name: str, where: str) -> str:
    """A label as text; numbers, and true and false, as they are written in JSON."""
    if isinstance(value, list | dict):
        raise RegardError(f"{where}: the label {name!r} is {_type(value)}, not a text or a number")
    label = _text(value, name, where) if isinstance(value, str) else json.dumps(value)
    if not label:
        raise RegardError(f"{where}: the label {name!r} is empty; add a label or remove the line")
    return label


def _type(value: Any) -> str:
    return "a text" if isinstance(value, str) else _TYPES.get(type(value), "null")
