"""`regard doctor`: check this machine and its configuration."""

import json

import typer

from regard.cli.options import AsJson


def doctor(as_json: AsJson = False) -> None:
    """Check the machine: threads, memory, speed, packages. Problems are marked with an exclamation mark.

    Examples:

        regard doctor

        regard doctor --json
    """
    from regard.training.doctor import findings

    found = findings()
    if as_json:
        about = {f.name: {**f.values, "text": f.text, "remedy": f.remedy} for f in found}
        typer.echo(json.dumps(about, indent=2))
        return
    width = max(len(f.name) for f in found)
    for f in found:
        typer.echo(f"{'!' if f.remedy else ' '} {f.name:<{width}}  {f.text}{f'; {f.remedy}' if f.remedy else ''}")
