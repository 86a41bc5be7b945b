"""The examples of the pages work: Python code runs, commands succeed, links have targets."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "RESULTS.md",
    *(ROOT / "docs").glob("*.md"),
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [code for kind, code in BLOCK.findall(page.read_text("utf-8")) if kind == language]


def test_there_are_pages_with_code() -> None:
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 5
    assert sum(len(blocks(page, "bash")) for page in PAGES) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_examples_of_a_page_run(page, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python"))
    exec(compile(code, str(page), "exec"), {"__name__": page.stem})
    assert code.count("assert") or not code


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_succeed(page, tmp_path) -> None:
    for line in "\n".join(blocks(page, "bash")).replace("\\\n", " ").splitlines():
        command = shlex.split(line, comments=True)
        if command and command[0] == "regard":
            result = subprocess.run(
                [sys.executable, "-m", *command], capture_output=True, text=True, cwd=tmp_path, check=False
            )
            assert result.returncode == 0, f"{line}\n{result.stderr}"
        elif command and command[0] == "make":
            targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
            assert command[1] in targets, line


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_of_a_page_have_existing_targets(page) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_shown_on_a_page_equal_the_real_ones(page) -> None:
    for block in blocks(page, "diff"):
        header, *lines = block.splitlines(keepends=True)
        if all(line.startswith("+") for line in lines):
            shown = "".join(line[1:] for line in lines)
            assert shown in (ROOT / header.removeprefix("+++ b/").strip()).read_text("utf-8"), header
