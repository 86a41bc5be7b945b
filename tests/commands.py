"""The command line, called from within."""

from click.testing import Result
from typer.testing import CliRunner

from regard.cli.main import app


def invoked(*arguments: object, stdin: str | None = None) -> Result:
    """What comes of a command; what it raises is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def run(*arguments: object, stdin: str | None = None) -> str:
    """What a command prints."""
    return invoked(*arguments, stdin=stdin).stdout
