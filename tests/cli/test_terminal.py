"""Escape sequences of models, files and errors never reach a terminal, and output elsewhere is as it is."""

import io
import json
import os
import subprocess
import sys
from contextlib import suppress

import pytest
from rich.progress import Progress
from rich.table import Table

from regard.cli import main as main_module
from regard.cli import terminal
from regard.cli.console import make_console
from regard.errors import RegardError
from regard.training.report import Report

TITLE, SHOWN = "\x1b]0;owned\x07 \x9b31m \r end", "\\u001b]0;owned\\u0007 \\u009b31m \\u000d end"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def run(monkeypatch, stdout: io.StringIO, action) -> str:
    """What stderr shows of a command."""
    stderr = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "argv", ["regard"])
    monkeypatch.setattr(main_module, "app", action)
    with suppress(SystemExit):
        main_module.main()
    return stderr.getvalue()


def test_escape_sequences_are_shown_on_a_terminal_and_kept_elsewhere(monkeypatch) -> None:
    screen, file = Screen(), io.StringIO()
    run(monkeypatch, screen, lambda: print(f"línea 1\n{TITLE}\t2"))  # noqa: T201
    run(monkeypatch, file, lambda: print(f"línea 1\n{TITLE}\t2"))  # noqa: T201
    assert screen.getvalue() == f"línea 1\n{SHOWN}\t2\n"
    assert file.getvalue() == f"línea 1\n{TITLE}\t2\n"


def test_escape_sequences_in_errors_are_shown(monkeypatch) -> None:
    def fail() -> None:
        raise RegardError(f"no label {TITLE}")

    assert run(monkeypatch, io.StringIO(), fail) == f"regard: no label {SHOWN}\n"


def test_rich_still_colours_its_output_and_shows_escape_sequences_of_texts(monkeypatch) -> None:
    def colour() -> None:
        table = Table("[bold]label[/bold]")
        table.add_row(f"\x1b]0;owned {TITLE}")
        make_console(force_terminal=True, width=200).print(table)

    screen = Screen()
    run(monkeypatch, screen, colour)
    assert "\x1b[1mlabel" in screen.getvalue()
    assert "\\u001b]0;owned" in screen.getvalue()
    assert "\x1b]" not in screen.getvalue()


def test_the_escape_sequences_of_a_live_line_reach_the_terminal(monkeypatch) -> None:
    stderr = Screen()

    def progress() -> None:
        report = Report(make_console(stderr=True, force_terminal=True, width=80, highlight=False))
        report.console.print(f"before {TITLE}", markup=False)
        with Progress(console=report.console, transient=True) as bar:
            task = bar.add_task("training", total=10)
            for _ in range(10):
                bar.update(task, advance=1, refresh=True)
            print("within \x1b]0;owned\x07 it", file=sys.stderr)  # noqa: T201, it goes through the live line

    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setattr(sys, "stderr", stderr)
    monkeypatch.setattr(sys, "argv", ["regard"])
    monkeypatch.setattr(main_module, "app", progress)
    main_module.main()
    shown = stderr.getvalue()
    assert "\r\x1b[2K" in shown, "the line is erased before it is written again"
    assert "\\u001b[2K" not in shown
    assert "before \\u001b]0;owned" in shown
    assert "within " in shown
    assert "\x1b]" not in shown


def test_printable_json_is_the_same_json() -> None:
    line = json.dumps({"text": TITLE, "other": "ñ"}, ensure_ascii=False)
    assert json.loads(terminal.printable(line)) == json.loads(line)
    assert "\x9b" not in terminal.printable(line)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "regard: not enough memory; choose smaller batches"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 40000 bytes."),
            "regard: not enough memory for 40000 bytes; choose smaller batches",
        ),
        (
            RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB."),
            "regard: not enough memory for 20.00 MiB; choose smaller batches",
        ),
    ],
)
def test_running_out_of_memory_is_reported_in_one_line(error, message, monkeypatch) -> None:
    def fail() -> None:
        raise error

    shown = run(monkeypatch, io.StringIO(), fail)
    assert shown.startswith(message)
    assert shown.count("\n") == 1


def test_other_runtime_errors_keep_their_traceback(monkeypatch) -> None:
    def fail() -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        run(monkeypatch, io.StringIO(), fail)


@pytest.mark.skipif(sys.platform == "win32", reason="arguments are Unicode on Windows")
def test_an_argument_that_is_not_utf8_is_reported() -> None:
    arguments = [sys.executable.encode(), b"-m", b"regard", b"translate", b"\xff\xfe"]
    result = subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, "PYTHONUTF8": "1"})
    assert result.stderr == "regard: the argument b'\\xff\\xfe' is not UTF-8\n"
    assert result.returncode == 1
