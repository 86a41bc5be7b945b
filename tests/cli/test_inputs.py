"""Where verbs read texts from: arguments, `--file`, standard input."""

import gzip
import io
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from commands import invoke, run
from regard.cli import texts as reading


class Pipe(io.RawIOBase):
    """Delivers blocks of bytes as a pipe does: each as it is, with a pause before those after `None`."""

    def __init__(self, *blocks: bytes | None) -> None:
        self.blocks = list(blocks)

    def readable(self) -> bool:
        return True

    def read(self, _size: int = -1) -> bytes:
        if self.blocks and self.blocks[0] is None:
            time.sleep(20 * reading.GRACE)
            self.blocks.pop(0)
        return self.blocks.pop(0) or b"" if self.blocks else b""


class Input(io.TextIOWrapper):
    def __init__(self, *blocks: bytes | None) -> None:
        super().__init__(io.BytesIO())
        self.pipe = Pipe(*blocks)

    @property
    def buffer(self):
        return self.pipe


def arriving(monkeypatch, *blocks: bytes | None, size: int = 4) -> list[list[str]]:
    monkeypatch.setattr(sys, "stdin", Input(*blocks))
    return list(reading.chunks(None, None, size))


def test_lines_of_standard_input_do_not_wait_for_later_ones(monkeypatch) -> None:
    assert arriving(monkeypatch, b"a\nb\n", None, b"c\n") == [["a", "b"], ["c"]]
    assert arriving(monkeypatch, b"a\nb\nc\nd\ne\n") == [["a", "b", "c", "d"], ["e"]]
    assert arriving(monkeypatch, b"\xef\xbb\xbfa\r\n\nb", b"c", b"d\ne") == [["a", "", "bcd", "e"]]
    assert arriving(monkeypatch) == []


def test_lines_before_a_damaged_one_are_answered(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", Input(b"a\nb\n\xff\n"))
    found = reading.chunks(None, None, 4)
    assert next(found) == ["a", "b"]
    with pytest.raises(ValueError, match="standard input, line 3: not UTF-8"):
        next(found)


def test_translations_are_printed_while_standard_input_is_open() -> None:
    command = [sys.executable, "-m", "regard", "translate", "--beam", "1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        waiting = threading.Timer(120, process.kill)  # so that a translation that never comes fails the test
        waiting.start()
        for text in ("Where is he?", "We eat bread."):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            assert process.stdout.readline().strip()  # would wait for the end of standard input otherwise
        process.stdin.close()
        assert process.stdout.read() == ""
        waiting.cancel()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("verb", "name", "options"),
    [("classify", "sst2", []), ("tag", "pos", []), ("embed", "plain", []), ("fill", "guesser", [])],
)
def test_a_file_gives_the_same_as_its_lines_in_every_verb(models: Path, tmp_path: Path, verb, name, options) -> None:
    lines = ["the [MASK] dog", "good [MASK]"]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    with gzip.open(tmp_path / "in.txt.gz", "wb") as file:
        file.write((tmp_path / "in.txt").read_bytes())
    given = run(verb, "-m", models / name, *options, *lines)
    assert run(verb, "-m", models / name, *options, "--file", tmp_path / "in.txt") == given
    assert run(verb, "-m", models / name, *options, "--file", tmp_path / "in.txt.gz") == given
    assert run(verb, "-m", models / name, *options, stdin=(tmp_path / "in.txt").read_text()) == given


def test_a_text_that_names_a_file_is_translated_with_a_hint(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.txt").write_text("Where is he?\n")
    result = invoke("translate", "in.txt")
    assert result.stderr == "regard: in.txt is read as a text; to read the file of this name: --file in.txt\n"
    assert result.stdout != run("translate", "--file", "in.txt") == run("translate", "Where is he?")
    capsys.readouterr()
    reading.expect_one_source(["x" * 5000, "x\0", ".", "in"], None)  # too long, impossible, a folder, not there
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verb", ["translate", "complete", "classify", "tag", "embed", "fill"])
def test_texts_and_a_file_cannot_be_combined(tmp_path: Path, verb, models: Path) -> None:
    (tmp_path / "in.txt").write_text("x\n")
    model = {"classify": models / "sst2", "tag": models / "pos", "embed": models / "plain", "fill": models / "guesser"}
    with pytest.raises(ValueError, match="texts on the command line and --file cannot be combined"):
        run(verb, "-m", model.get(verb, "en-es"), "x", "--file", tmp_path / "in.txt")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_long_batch_shows_progress_on_a_terminal_only(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "in.txt").write_text("x\n" * 5)
    monkeypatch.setattr(reading, "PATIENCE", 0.0)
    for error, output, prints, shows in (
        (Terminal(), io.StringIO(), True, True),
        (Terminal(), Terminal(), True, False),  # the results show how far it is
        (Terminal(), Terminal(), False, True),
        (io.StringIO(), io.StringIO(), True, False),
    ):
        monkeypatch.setattr(sys, "stderr", error)
        monkeypatch.setattr(sys, "stdout", output)
        assert [len(chunk) for chunk in reading.chunks(None, tmp_path / "in.txt", 2, prints=prints)] == [2, 2, 1]
        assert ("5/5" in error.getvalue()) == shows
        assert bool(error.getvalue()) == shows


def test_a_terminal_is_told_that_lines_are_awaited(monkeypatch, capsys) -> None:
    stdin = Input(b"a\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(reading.chunks(None, None)) == [["a"]]
    assert "reading lines from the terminal; finish with Ctrl-" in capsys.readouterr().err


def test_options_of_beam_search_and_of_sampling_exclude_each_other() -> None:
    for option in (("--beam", 8), ("--length-penalty", 0.5)):
        with pytest.raises(ValueError, match=f"{option[0]} applies only to beam search; remove it or --sample"):
            run("translate", "--sample", *option, "x")
