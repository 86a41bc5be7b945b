"""`regard cache`: list and remove the files in the cache."""

import json
import time
from typing import Annotated, Any

import typer

from regard.cli.options import AsJson


def cache(
    prune: Annotated[bool, typer.Option("--prune", help="Remove the folders that are listed.")] = False,
    older_than: Annotated[
        float, typer.Option(min=0, metavar="DAYS", help="Only folders that were not used for this many days.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """List or remove cached files: encoded text and exports.

    They are in ~/.cache/regard, or in the folder that REGARD_CACHE names, and are created again when they are needed.

    Examples:

        regard cache

        regard cache --prune --older-than 30
    """
    from regard import folders
    from regard.data import cache as cached

    root, now = folders.cache(), time.time()
    found = [entry for entry in cached.entries(root) if now - entry.used >= older_than * cached.DAY]
    if prune:
        found = [entry for entry in found if cached.prune(entry)]
    rows: list[dict[str, Any]] = [
        {"what": entry.what, "bytes": entry.bytes, "last_use": _date(entry.used), "path": str(entry.path)}
        for entry in found
    ]
    total = sum(entry.bytes for entry in found)
    if as_json:
        typer.echo(json.dumps({"folder": str(root), "bytes": total, "removed": prune, "entries": rows}, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['last_use']}  {_size(row['bytes'])}  {row['what']}  {row['path']}")
    typer.echo(f"{root}: {_size(total).strip()}{' removed' if prune else ''}")


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _size(count: int) -> str:
    return f"{count / 1e6:8,.1f} MB"
