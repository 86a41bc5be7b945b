"""The command line, run in this process."""

from click.testing import Result
from typer.testing import CliRunner

from regard.cli.main import app


def invoke(*arguments: object, stdin: str | None = None) -> Result:
    """The result of a command; its exceptions are raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def run(*arguments: object, stdin: str | None = None) -> str:
    """The output of a command."""
    return invoke(*arguments, stdin=stdin).stdout
