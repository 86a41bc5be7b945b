"""Folders of the cache are verified, listed, and removed on request."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from commands import run
from regard.data.cache import cached, entries, prune


def make(cache: Path, key: str = "key", say=None, text: str = "one two three") -> str:
    def fill(folder: Path) -> None:
        (folder / "text.bin").write_text(text)

    return cached(cache, "words", [key], fill, lambda folder: (folder / "text.bin").read_text(), say or pytest.fail)


@pytest.mark.parametrize("byte", range(13))
def test_any_changed_bit_is_noticed_reported_and_repaired(tmp_path: Path, byte) -> None:
    make(tmp_path)
    (path,) = tmp_path.glob("*/text.bin")
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)
    said: list[str] = []
    assert make(tmp_path, say=said.append) == "one two three"
    assert said == [f"the cache is damaged and is created again: {path}: damaged, its checksum is wrong"]
    assert make(tmp_path) == "one two three"
    assert len(list(tmp_path.iterdir())) == 1


def ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_folders_of_killed_processes_are_removed_and_those_of_others_are_kept(tmp_path: Path) -> None:
    name, host = "0" * 32, socket.gethostname()
    killed = tmp_path / f".{name}.{host}.{ended_process()}"
    busy = tmp_path / f".{name}.{host}.{os.getppid()}"
    elsewhere, forgotten = (tmp_path / f".{name}.another-machine.{number}" for number in (1, 2))
    mine = tmp_path / "my.texts"
    for folder in (killed, busy, elsewhere, forgotten, mine):
        folder.mkdir()
    os.utime(forgotten, (0, 0))
    make(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left > {busy.name, elsewhere.name, mine.name}
    assert len(left) == 4
    assert [prune(entry) for entry in entries(tmp_path) if entry.what == "unfinished, in use"] == [False, False]


def test_the_cache_is_listed_and_pruned(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    assert run("cache") == f"{tmp_path}: 0.0 MB\n"
    for key in ("old", "new"):
        make(tmp_path, key, text="x" * 200_000)
    old = next(path for path in tmp_path.iterdir() if path != entries(tmp_path)[0].path)
    os.utime(old, (0, 0))
    (tmp_path / "ct2" / ("1" * 64)).mkdir(parents=True)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("mine")
    lines = run("cache").splitlines()
    assert [line.split("  ")[-2] for line in lines[:-1]] == ["export for CTranslate2", "words", "words"]
    assert lines[-1] == f"{tmp_path}: 0.4 MB"
    listed = json.loads(run("cache", "--json", "--older-than", 30))
    assert [(entry["what"], entry["path"]) for entry in listed["entries"]] == [("words", str(old))]
    assert 200_000 < listed["bytes"] == listed["entries"][0]["bytes"] < 201_000
    assert old.exists()
    assert run("cache", "--prune", "--older-than", 30).endswith(f"{tmp_path}: 0.2 MB removed\n")
    assert not old.exists()
    make(tmp_path, "new")  # is still there
    assert json.loads(run("cache", "--prune", "--json"))["removed"]
    assert {path.name for path in tmp_path.rglob("*")} == {"ct2", "notes", "mine.txt"}


def test_using_a_folder_sets_the_time_of_its_last_use(tmp_path: Path) -> None:
    make(tmp_path)
    (folder,) = tmp_path.iterdir()
    os.utime(folder, (0, 0))
    make(tmp_path)
    assert entries(tmp_path)[0].used > 0
