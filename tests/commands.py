"""The command line, called from within."""

from typer.testing import CliRunner

from regard.cli.main import app


def run(*arguments: object, stdin: str | None = None) -> str:
    """What a command prints; what it raises is raised."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout
