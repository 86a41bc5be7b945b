import errno
import json
import os
import sys
from pathlib import Path

import pytest
import torch

from regard import folders
from regard.errors import RegardError
from regard.folders import read_folder, restore, verify, write_folder, write_tensors, write_text


def fill(text: str):
    return lambda temporary: (temporary / "a.txt").write_text(text)


def test_a_folder_is_written_and_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "model"
    for text in ("one", "two"):
        write_folder(folder, fill(text))
        assert (folder / "a.txt").read_text() == text
        verify(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_an_error_while_writing_keeps_the_old_folder(tmp_path: Path) -> None:
    def fail(temporary: Path) -> None:
        (temporary / "a.txt").write_text("half")
        raise OSError(28, "No space left on device")

    folder = tmp_path / "model"
    with pytest.raises(OSError, match="No space left"):
        write_folder(folder, fail)
    assert list(tmp_path.iterdir()) == []
    write_folder(folder, fill("whole"))
    with pytest.raises(OSError, match="No space left"):
        write_folder(folder, fail)
    verify(folder)
    assert (folder / "a.txt").read_text() == "whole"
    assert len(list(tmp_path.iterdir())) == 1


def test_an_interrupt_between_the_two_renames_loses_nothing(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "model"
    write_folder(folder, fill("old"))
    rename = Path.rename

    def die(path: Path, target: Path) -> Path:
        if target == folder:
            raise KeyboardInterrupt
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(folders.Path, "rename", die)
        with pytest.raises(KeyboardInterrupt):
            write_folder(folder, fill("new"))
    assert not folder.exists()
    restore(folder)
    verify(folder)
    assert (folder / "a.txt").read_text() == "old"
    write_folder(folder, fill("new"))
    assert (folder / "a.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "a.txt").write_text("onf"), r"a\.txt: damaged"),
        (lambda f: (f / "a.txt").write_text(""), r"a\.txt: damaged"),
        (lambda f: (f / "a.txt").unlink(), r"a\.txt: missing"),
        (lambda f: (f / "hashes.json").unlink(), r"hashes\.json: missing or damaged"),
        (lambda f: (f / "hashes.json").write_text("{"), r"hashes\.json: missing or damaged"),
    ],
)
def test_damaged_files_are_reported(tmp_path: Path, damage, message) -> None:
    write_folder(tmp_path / "model", fill("one"))
    damage(tmp_path / "model")
    with pytest.raises(ValueError, match=message):
        verify(tmp_path / "model")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, "it must list a checksum for each file") for text in ("[]", "5", "null", '"a"', '{"a.txt": 5}')),
        ("[" * 100_000, "missing or damaged"),
        (" " * 2_000_000, "missing or damaged"),
        ('{"../a.txt": ""}', r"'../a.txt' is not the name of a file in this folder"),
        ("{}", r"config\.json: not listed in hashes\.json"),
    ],
)
def test_a_list_of_hashes_of_the_wrong_form_is_reported(tmp_path: Path, text, message) -> None:
    folder = tmp_path / "model"
    write_folder(folder, lambda temporary: (temporary / "config.json").write_text("{}"))
    (folder / "hashes.json").write_text(text)
    with pytest.raises(RegardError, match=message):
        verify(folder)


@pytest.mark.parametrize("name", ["hashes.json", "a.txt"])
def test_a_pipe_or_a_device_is_not_read(tmp_path: Path, name) -> None:
    for path, make in ((tmp_path / "pipe", os.mkfifo), (tmp_path / "device", lambda p: p.symlink_to("/dev/zero"))):
        write_folder(path, fill("one"))
        (path / name).unlink()
        make(path / name)
        with pytest.raises(RegardError, match=f"{name}: missing"):
            verify(path)


def test_a_card_may_be_edited_or_removed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    write_folder(folder, lambda temporary: [(temporary / name).write_text("one") for name in ("README.md", "a.txt")])
    hashes = json.loads((folder / "hashes.json").read_text())
    assert hashes.keys() == {"a.txt"}
    (folder / "hashes.json").write_text(json.dumps({**hashes, "README.md": "as older versions wrote it"}))
    for change in (lambda card: card.write_text("my notes"), Path.unlink):
        change(folder / "README.md")
        verify(folder)


def test_files_can_be_read_by_others_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        write_folder(tmp_path / "model", lambda folder: write_tensors(folder / "x.safetensors", {"x": torch.ones(1)}))
        write_text(tmp_path / "a.txt", "one")
        os.umask(0o077)
        write_tensors(tmp_path / "y.safetensors", {"x": torch.ones(1)})
    finally:
        os.umask(before)
    for path in (*(tmp_path / "model").iterdir(), tmp_path / "a.txt"):
        assert path.stat().st_mode & 0o777 == 0o644, path
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "y.safetensors").stat().st_mode & 0o777 == 0o600


def test_files_and_folders_are_flushed_before_they_are_renamed(tmp_path: Path, monkeypatch) -> None:
    flushed: list[Path] = []
    monkeypatch.setattr(folders, "sync", flushed.append)
    write_folder(tmp_path / "model", fill("one"))
    staged = tmp_path / ".model.new"
    assert set(flushed[:2]) == {staged / "a.txt", staged / "hashes.json"}
    assert flushed[2:] == [staged, tmp_path]
    flushed.clear()
    write_text(tmp_path / "b.txt", "one")
    assert flushed == [tmp_path / ".b.txt.new", tmp_path]


@pytest.mark.parametrize("arguments", [(errno.ENOSPC, "No space left on device"), ("100 requested and 3 written",)])
def test_errors_while_writing_name_the_path(tmp_path: Path, monkeypatch, arguments) -> None:
    def fail(*_: object) -> None:
        raise OSError(*arguments)

    with pytest.raises(OSError, match=str(tmp_path / "model")) as found:
        write_folder(tmp_path / "model", fail)
    assert found.value.errno == OSError(*arguments).errno
    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(OSError, match=str(tmp_path / "a.txt")):
        write_text(tmp_path / "a.txt", "one")


def test_a_folder_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    folder, reads = tmp_path / "model", []
    write_folder(folder, fill("one"))

    def read(found: Path) -> str:
        text = (found / "a.txt").read_text()
        reads.append(text)
        if len(reads) == 1:
            write_folder(folder, fill("two"))
            raise RegardError("damaged, because half of it was read from the old folder")
        return text

    assert read_folder(lambda: folder, read) == "two"
    assert reads == ["one", "two"]

    def damaged(_: Path) -> str:
        raise RegardError("damaged")

    with pytest.raises(RegardError, match="damaged"):
        read_folder(lambda: folder, damaged)


def test_the_current_folder_can_be_verified_and_restored(tmp_path: Path, monkeypatch) -> None:
    write_folder(tmp_path / "model", fill("one"))
    monkeypatch.chdir(tmp_path / "model")
    restore(Path())
    verify(Path())
    assert Path("a.txt").read_text() == "one"
    Path("a.txt").write_text("two")
    with pytest.raises(ValueError, match="a.txt: damaged"):
        verify(Path())


def test_a_folder_is_written_on_windows_where_folders_cannot_be_opened(tmp_path: Path, monkeypatch) -> None:
    real, modes, count = os.open, {}, 0

    def opened(path: Path, mode: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(13, "Permission denied", str(path))
        descriptor = real(path, mode)
        modes[descriptor] = mode
        return descriptor

    def synced(descriptor: int) -> None:
        nonlocal count
        count += 1
        if modes[descriptor] & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(9, "Bad file descriptor")

    with monkeypatch.context() as windows:
        windows.setattr(folders.os, "open", opened)
        windows.setattr(folders.os, "fsync", synced)
        windows.setattr(sys, "platform", "win32")
        write_folder(tmp_path / "model", fill("one"))
    verify(tmp_path / "model")
    assert count == 2  # a.txt and hashes.json
